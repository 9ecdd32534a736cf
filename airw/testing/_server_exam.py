"""The program `python -m airw.testing.exam`: the exam of a server or of one's own store."""

import argparse
import os
import runpy
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import anyio

from airw import policies
from airw._base.messages import error_text, escape_controls, short_repr
from airw.corpora import Corpus, build
from airw.errors import AirwError, ArgumentError
from airw.links import extractor_from
from airw.protocols import Store, check_store
from airw.sources import from_mapping
from airw.stores import MemoryStore, PostgresStore, refuse_password
from airw.testing.exam import Case, Exam, Report, expect_equal
from airw.testing.stores import CAPABILITIES, StoreSuite
from airw.values import ArtifactChange
from airw.walking import WalkPolicy, start_walk

_QUERY = "rotate the signing keys of the vault"
_ABOUT = """Run the exam of stores, and walks of all policies, on a PostgreSQL server that you have.

Or run the exam of stores on one of your own: FUNCTION receives a folder, and with --read-only the artifacts.

Each case works in a schema of its own, named airw_exam-…, which is dropped again. Other schemas are not touched. The
role needs CREATE on the database, and the database the extension vector."""
_EXAMPLES = """examples:
  python -m airw.testing.exam postgresql://ada@db.example/scratch
  python -m airw.testing.exam own_store.py:open_store --read-only
  python -m airw.testing.exam 'postgresql://ada:$PASSWORD@db.example/scratch' --only walk

The exit code is 0 if no case failed, 1 if one failed, and 2 if nothing could be examined."""

Open = Callable[[str], AbstractAsyncContextManager[PostgresStore]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    arguments = _parse(argv)
    try:
        reports = _examine_server(arguments) if "://" in arguments.address else _examine_file(arguments)
    except KeyboardInterrupt:
        return _print_error("interrupted", 130)
    except AirwError as error:
        return _print_error(str(error), 2)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user of the program never sees a traceback
        return _print_error(error_text(error), 2)
    if all(outcome.status == "left out" for report in reports for outcome in report.outcomes):
        return _print_error("no case was run: choose other words for --only", 2)
    _print_reports(reports)
    return int(any(not report.passed for report in reports))


def _examine_file(arguments: argparse.Namespace) -> list[Report]:
    """Examine the store that a function in a file opens.

    Imports find the modules beside the file, as they do when it is run as a program.
    """
    file, _, name = arguments.address.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise ArgumentError(f"ADDRESS must be an address, or FILE.py:FUNCTION, not {short_repr(arguments.address)}")
    folder = str(Path(file).resolve().parent)
    sys.path.insert(0, folder)
    try:
        try:
            names = runpy.run_path(file, run_name="examined")
        except (Exception, SystemExit) as error:
            raise ArgumentError(f"{file} cannot be run: {error_text(error)}") from error
        make: Callable[..., AbstractAsyncContextManager[Any]] | None = names.get(name)
        if not callable(make):
            raise ArgumentError(f"{file} has no function {name}")
        suite = _make_suite(make, names.get(arguments.content), name, file, arguments)
        return [anyio.run(_choose(suite, arguments.only).run)]
    finally:
        sys.path.remove(folder)


def _make_suite(
    make: Callable[..., AbstractAsyncContextManager[Any]],
    content: Any,
    name: str,
    file: str,
    arguments: argparse.Namespace,
) -> StoreSuite:
    """Return the suite of a store.

    Raises:
        ArgumentError: If `content` is no list of artifacts; or if the store is written to although `--read-only` says
            that it is not, or the other way round.
    """
    is_list = isinstance(content, list) and all(isinstance(each, ArtifactChange) for each in content)
    if arguments.content and not is_list:
        raise ArgumentError(
            f"{arguments.content} of {file} must be a list of ArtifactChange, not {short_repr(content)}"
        )

    async def read_capabilities() -> frozenset[str]:
        with tempfile.TemporaryDirectory(prefix="airw-", ignore_cleanup_errors=True) as folder:
            async with make(Path(folder), []) if arguments.read_only else make(Path(folder)) as store:
                check_store(store)
                return frozenset(store.capabilities)

    offered = anyio.run(read_capabilities)
    if not arguments.content and arguments.read_only == ("writing" in offered):
        raise ArgumentError(f"--read-only is for stores without the capability 'writing'; {name} opens another one")
    promises = [each.strip() for each in arguments.promises.split(",") if each.strip()]
    return StoreSuite(make, capabilities={*offered, *promises}, content=content)


def _examine_server(arguments: argparse.Namespace) -> list[Report]:
    refuse_password("the command line", arguments.address)
    make = partial(PostgresStore, arguments.address)
    return anyio.run(_run, arguments.address, make, arguments.only)


def _print_reports(reports: Sequence[Report]) -> None:
    text = "\n".join(map(str, reports))
    try:
        print(escape_controls(text, multiline=True), flush=True)  # noqa: T201 - the output of a program
    except BrokenPipeError:
        # The reader has enough, as `head` has: let Python flush into another file at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _ExamParser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(_print_error(f"{message}; see --help", 2))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; options that would be ignored are an error."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if "://" in arguments.address:
        for name in ("promises", "read_only", "content"):
            if getattr(arguments, name):
                parser.error(f"--{name.replace('_', '-')} is for a store in FILE.py, not for a server")
    if arguments.read_only and arguments.content:
        parser.error("--read-only hands artifacts over, and --content says what is there: pass one of them")
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = _ExamParser(
        prog="python -m airw.testing.exam",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        help="postgresql://USER:$VARIABLE@HOST/DATABASE, in single quotes; or FILE.py:FUNCTION, which opens a store",
    )
    parser.add_argument(
        "--promises",
        metavar="LIST",
        default="",
        help="what the store in FILE.py promises besides its capabilities, with commas: "
        "closing, persistent, runs or shared",
    )
    parser.add_argument("--read-only", action="store_true", help="the store in FILE.py is not written to")
    parser.add_argument(
        "--content",
        metavar="NAME",
        default="",
        help="the artifacts of a store in FILE.py that has no others: a list of ArtifactChange in that file",
    )
    parser.add_argument("--only", metavar="WORD", default="", help="only cases with this word in their name")
    return parser


def _print_error(message: str, code: int) -> int:
    print(f"exam: {escape_controls(' '.join(message.split()))}", file=sys.stderr)  # noqa: T201
    return code


async def _run(address: str, make: Callable[[str], PostgresStore], only: str) -> list[Report]:
    """Run all cases and return a report of the stores and one of the walks."""
    schemas = _Schemas(address, make)
    await schemas.check()
    stores = StoreSuite(lambda folder: schemas.open(Path(folder).name), capabilities=CAPABILITIES)
    walks = _WalkExam(schemas.open)
    try:
        return [await _choose(suite, only).run() for suite in (stores, walks)]
    finally:
        with anyio.CancelScope(shield=True):
            await schemas.drop_all()


def _choose(suite: Exam[Any], only: str) -> Exam[Any]:
    # On the instance: the class of a suite belongs to all.
    suite.all_cases = [case for case in suite.all_cases if only in case.name]  # type: ignore[misc]
    return suite


class _Schemas:
    """The corpora that the exam has made on the server."""

    def __init__(self, address: str, make: Callable[[str], PostgresStore]) -> None:
        self._address, self._make = address, make
        self._mark = os.urandom(4).hex()
        self._names: dict[str, str] = {}

    async def check(self) -> None:
        """Check that the server can be used, before the first case.

        Raises:
            AirwError: If it cannot.
        """
        async with self.open("check"):
            pass

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[PostgresStore]:
        """Yield an open store; the same key means the same corpus."""
        if key not in self._names:
            # Cases run one after the other, so nobody needs the earlier ones any more.
            await self.drop_all()
            self._names[key] = f"exam-{self._mark}-{key[-24:].casefold()}"
        async with self._make(self._names[key]) as store:
            yield store

    async def drop_all(self) -> None:
        """Drop all schemas that were made."""
        for key, name in [*self._names.items()]:
            if await self._make(name).exists():
                await PostgresStore.remove(self._address, name)
            del self._names[key]


class _WalkExam(Exam[Open]):
    """Checks that walks on the server are those on a store in memory."""

    subject = "walks"
    all_cases: ClassVar[Sequence[Case[Any]]]

    def __init__(self, open: Open) -> None:
        self._open = open
        self.all_cases = [_make_case(name, policy) for name, policy in _list_policies().items()]  # type: ignore[misc]

    def _offers(self, case: Case[Open]) -> bool:
        return True

    @asynccontextmanager
    async def _fixture(self) -> AsyncIterator[Open]:
        yield self._open


def _list_policies() -> dict[str, Callable[[], WalkPolicy]]:
    """Return a maker of each shipped policy, by its name."""
    return {
        "PathCoverage": policies.PathCoverage,
        "PersonalizedPageRank": policies.PersonalizedPageRank,
        "Eager": policies.Eager,
        "Beam": policies.Beam,
        "Mmr": policies.Mmr,
        "CollapsedTree": policies.CollapsedTree,
        "LinkWalk": partial(policies.LinkWalk, roots=["note-00"]),
        "ReverseDependency": partial(policies.ReverseDependency, seeds=["note-00"], edge_type="next"),
        "Scored": partial(policies.Scored, scorer=lambda node: -len(node.id)),
    }


def _make_case(name: str, policy: Callable[[], WalkPolicy]) -> Case[Open]:
    async def check(open: Open) -> None:
        async with MemoryStore() as memory, open(f"walk-{name}") as server:
            expected, got = [await _walk(await _build(store), policy()) for store in (memory, server)]
        expect_equal([hit for hit, _ in got], [hit for hit, _ in expected], "hits")
        for (hit, score), (_, expected_score) in zip(got, expected, strict=True):
            if abs(score - expected_score) > 1e-5:
                raise AssertionError(f"the score of {hit!r}: expected {expected_score}, got {score}")

    return Case(f"walk_of_{name}", f"A walk of {name} finds the same as in memory.", check)


async def _build(store: Store) -> Corpus:
    """Build a small corpus with links in a store."""
    subjects = ("keys", "bread", "vault", "tyres", "audits", "tides")
    texts = {
        f"note-{number:02}": f"how to rotate the {subjects[number % 6]} of house {number // 6}, and sign for it"
        for number in range(48)
    }

    def link(name: str, _: object) -> dict[str, list[str]]:
        number = int(name[-2:])
        return {"next": [f"note-{(number + 1) % 48:02}"], "related": [f"note-{number * 5 % 48:02}", "missing"]}

    source = from_mapping(texts, name="exam", embedder="light", edge_extractor=extractor_from(link, id="exam"))
    return await build(source, store=store)


async def _walk(corpus: Corpus, policy: WalkPolicy) -> list[tuple[str, float]]:
    """Return the ids and scores of a walk, in its order."""
    async with start_walk(_QUERY, corpus, policy) as walk:
        return [(str(hit.artifact_id), float(hit.score)) async for hit in walk]
