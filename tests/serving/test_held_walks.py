"""The walks that a server holds are few, belong to their clients, and are dropped in time."""

import gc
import math
import weakref

import anyio
import pytest

from airw.errors import WalkNotExtendable
from airw.serving import ServingLimits
from airw.serving.held_walks import HeldWalks
from airw.serving.problems import status_of
from airw.testing import run_on_virtual_clock


class _Held:
    """Anything that is held."""


def refusal_of(held, token, owner, kind=_Held):
    """Return the error with which a token is refused."""
    with pytest.raises(WalkNotExtendable) as caught, held.take(token, kind, owner):
        pass
    return caught.value


async def test_a_token_works_once_for_its_client_alone():
    held, walk = HeldWalks(ServingLimits()), _Held()
    async with held.running():
        token = held.hold(walk, "ada")
        for refused in (
            refusal_of(held, token, "bob"),
            refusal_of(held, token, "ada", kind=str),
            refusal_of(held, "another", "ada"),
        ):
            assert status_of(refused) == 410
            assert "works once, in the process that gave it, for 300 seconds" in str(refused)
        with held.take(token, _Held, "ada") as taken:
            assert taken is walk
        refusal_of(held, token, "ada")


async def test_a_mistake_does_not_use_up_a_token():
    held = HeldWalks(ServingLimits())
    async with held.running():
        token = held.hold(_Held(), "ada")
        with pytest.raises(ZeroDivisionError), held.take(token, _Held, "ada"):
            raise ZeroDivisionError
        with held.take(token, _Held, "ada"):
            pass


async def test_walks_are_few_and_nobody_loses_those_of_others():
    held = HeldWalks(ServingLimits(max_held_walks=5, max_held_per_client=3))
    async with held.running():
        bob = held.hold(_Held(), "bob")
        ada = [held.hold(_Held(), "ada") for _ in range(4)]
        assert len(held) == 4  # at most three of one client
        refusal_of(held, ada[0], "ada")
        held.hold(_Held(), "cy")
        held.hold(_Held(), "cy")
        assert len(held) == 5  # and five in all: the client with the most lost its oldest
        refusal_of(held, ada[1], "ada")
        with held.take(bob, _Held, "bob"), held.take(ada[2], _Held, "ada"):
            pass


def test_a_walk_is_freed_when_its_time_is_over_though_nobody_asks():
    async def main():
        held = HeldWalks(ServingLimits(max_hold=10.0))
        async with held.running():
            counts = []
            held.hold(_Held(), "ada")
            await anyio.sleep(6)
            taken = held.hold(_Held(), "ada")
            held.hold(_Held(), "ada")
            with held.take(taken, _Held, "ada"):
                pass
            for seconds in (3.9, 0.2, 5.8, 0.2):
                await anyio.sleep(seconds)
                counts.append(len(held))
            return counts

    assert run_on_virtual_clock(main) == [2, 1, 1, 0]


async def test_the_end_of_the_server_frees_all():
    held, walk = HeldWalks(ServingLimits()), _Held()
    freed = weakref.ref(walk)
    async with held.running():
        token = held.hold(walk, "ada")
        assert token is not None
    del walk
    gc.collect()
    assert freed() is None
    refusal_of(held, token, "ada")
    assert held.hold(_Held(), "ada") is None  # nobody would free it


def test_limits_of_held_walks_are_numbers_above_zero():
    for limit in ({"max_held_walks": 0}, {"max_hold": math.inf}):
        with pytest.raises(ValueError, match="max_h"):
            ServingLimits(**limit)
