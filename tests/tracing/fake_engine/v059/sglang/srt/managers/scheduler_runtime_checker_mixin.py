from __future__ import annotations


class SchedulerRuntimeCheckerMixin:
    def self_check_during_idle(self):
        self.idle_turns = getattr(self, "idle_turns", 0) + 1
