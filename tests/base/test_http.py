"""Error texts of servers, and pauses between tries."""

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from airw._base.http import calls
from airw._base.http.replies import message_of, retry_after


def test_retry_after_may_be_seconds_or_a_date():
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert retry_after("7", now) == 7
    assert retry_after(format_datetime(now + timedelta(seconds=9), usegmt=True), now) == 9
    assert retry_after(format_datetime((now + timedelta(seconds=9)).replace(tzinfo=None)), now) == 9
    assert retry_after(format_datetime(now - timedelta(days=1), usegmt=True), now) == 0
    for nonsense in (None, "", "soon", "-3", "nan", "²", "Mon, 99 Foo 2026 00:00:00 GMT"):
        assert retry_after(nonsense, now) is None
    assert retry_after("9" * 5000, now) == math.inf


def test_pauses_double_at_random_up_to_a_bound():
    for failures, bound in [(1, 0.5), (2, 1), (3, 2), (50, 30)]:
        pauses = [calls._pause(failures, None) for _ in range(300)]
        assert 0 <= min(pauses) < bound * 0.2
        assert bound * 0.8 < max(pauses) <= bound
    assert calls._pause(1, 86_400) == 60


def test_a_reason_in_plain_text_is_reported_in_one_line():
    assert message_of(b"upstream\r\n gone \xff") == "upstream gone \N{REPLACEMENT CHARACTER}"
    assert message_of(b"") == "nothing"
