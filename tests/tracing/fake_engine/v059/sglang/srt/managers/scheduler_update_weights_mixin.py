from __future__ import annotations


class SchedulerUpdateWeightsMixin:
    def update_weights_from_disk(self, recv_req):
        return True, "updated"

    def update_weights_from_tensor(self, recv_req):
        return True, "updated"
