"""The requests of one ring: what was told of each, and which of them have news."""

from __future__ import annotations

from collections.abc import Callable

from hicache_exporter.core import counting
from hicache_exporter.core.decoding import RID, SEQ, T_NS, Row, numbers
from hicache_exporter.core.observed import Sampled
from hicache_exporter.core.story import Story, TraceContext
from hicache_exporter.core.tally import RingClock, Tally
from hicache_tracing.records import ABSENT, Kind, decode_rid

MAX_STORIES = 4096
MAX_SIBLING_STORIES = 1024  # of a rank that does not lead: needed only until the leading rank's verdict is final
MAX_TEXTS = 8192

_64 = 0xFFFFFFFFFFFFFFFF


class Requests:
    """Bounded: the oldest story goes first, and is told to have no more news."""

    def __init__(self, tally: Tally, clock: RingClock, *, leads: bool) -> None:
        self.stories: dict[bytes, Story] = {}
        self.changed: dict[Story, None] = {}
        """Stories with news since somebody last took them from here."""
        self._tally = tally
        self._clock = clock
        self._room = MAX_STORIES if leads else MAX_SIBLING_STORIES
        self._texts: dict[bytes, str] = {}
        self.tellers: dict[int, Callable[[Row], None]] = {
            Kind.LOOKUP: self._lookup,
            Kind.ADMIT: self._admit,
            Kind.LOAD_BACK: self._load_back,
            Kind.FIRST_TOKEN: self._first_token,
            Kind.FINISH: self._finish,
            Kind.TEXT: self._text,
            Kind.TRACE: self._trace,
        }

    def request_id(self, rid: bytes) -> str:
        """The text of a request id; of a long one whose text was lost, its short key."""
        return self._texts.get(rid) or decode_rid(rid)

    def close(self) -> None:
        """No more will be told of any of them."""
        for story in self.stories.values():
            if not story.settled:
                self._close(story)

    def news(self, story: Story) -> None:
        if story.admit is not None:
            self.changed[story] = None

    def story(self, row: Row) -> Story:
        """The story that a row belongs to, begun with it if need be; the row goes on its timeline."""
        rid = row[RID]
        story = self.stories.get(rid)
        if story is None:
            story = self.stories[rid] = Story(rid, row[SEQ])
            if len(self.stories) > self._room:
                self._forget(next(iter(self.stories)))
        story.note(row)
        return story

    def _forget(self, rid: bytes) -> None:
        story = self.stories.pop(rid)
        if not story.settled:
            self._tally.forgot("requests", 1)
            self._close(story)

    def _close(self, story: Story) -> None:
        story.closed = True
        self.news(story)

    def _lookup(self, row: Row) -> None:
        known = self.stories.get(row[RID])
        if known is not None and known.finish is not None:  # the id is used again
            self._forget(row[RID])
        story = self.story(row)
        if story.admit is None:
            # requests that wait together are looked up in turn, pass after pass: another lookup is another promise
            story.lookups += story.lookup is None or numbers(row)[1:3] != numbers(story.lookup)[1:3]
            story.lookup = row
            story.promised = max(story.promised, numbers(row)[2])

    def _load_back(self, row: Row) -> None:
        story = self.story(row)
        _, loaded, outcome, _, _, _, _, _ = numbers(row)
        counting.load_back(self._tally.totals, outcome)
        if story.admit is None:
            story.load_back = row
            story.loaded = (story.loaded or 0) + max(loaded, 0)

    def _admit(self, row: Row) -> None:
        story = self.story(row)
        if story.admit is not None:
            return
        story.admit = row
        story.admitted_ns = row[T_NS]
        counting.admission(self._tally.totals, story, row)
        self.changed[story] = None

    def _first_token(self, row: Row) -> None:
        story = self.stories.get(row[RID])
        if story is None or story.first_token_ns is not None:
            return
        story.note(row)
        story.first_token_ns = row[T_NS]
        received = numbers(row)[1]
        if received != ABSENT:
            story.ttft_seconds = max(row[T_NS] - received, 0) / 1e9
        if story.admit is not None:
            counting.first_token(self._tally.totals, story, self.sampled(story, story.ttft_seconds or 0.0, row[T_NS]))
            self.changed[story] = None

    def _finish(self, row: Row) -> None:
        story = self.stories.get(row[RID])
        if story is not None:
            story.note(row)
            story.finish = row
            if story.admit is not None and not story.settled:
                self.changed[story] = None

    def _trace(self, row: Row) -> None:
        story = self.story(row)
        high, low, span, sampled = numbers(row)[:4]
        story.trace = TraceContext((high & _64) << 64 | low & _64, span & _64, bool(sampled))

    def _text(self, row: Row) -> None:
        self._texts[row[RID]] = self._tally.extra(row[SEQ])[: numbers(row)[0]].decode("utf-8", "replace")
        if len(self._texts) > MAX_TEXTS:
            del self._texts[next(iter(self._texts))]

    def sampled(self, story: Story, value: float, t_ns: int) -> Sampled | None:
        """An exemplar of the story's trace, if it has one that is kept."""
        trace = story.trace
        if trace is None or not trace.sampled:
            return None
        return Sampled(value, f"{trace.trace_id:032x}", self._clock.wall(t_ns))
