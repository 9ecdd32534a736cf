"""The example of an app of one's own runs as its README says."""

import re
import shlex
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.browser import chromium, complaints, visit

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "streaming_ui"


@contextmanager
def run_example():
    """Run the command of the README on a free port; yield the address that it prints."""
    [command] = re.findall(r"^    python (.+)$", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE)
    words = [sys.executable, *shlex.split(command), "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        try:
            log = ""
            for line in process.stderr:
                log += line
                if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
                    # Nobody else reads the log, and a full pipe would hold up the server.
                    threading.Thread(target=process.stderr.read, daemon=True).start()
                    yield found[1]
                    return
            pytest.fail(log)
        finally:
            process.terminate()
            process.wait(20)


def test_the_example_is_short():
    lines = [path.read_text("utf-8").splitlines() for path in FOLDER.iterdir() if path.is_file()]
    assert sum(map(len, lines)) < 80


@pytest.mark.slow
def test_the_example_streams_hits_into_its_page(tmp_path):
    with run_example() as address, chromium(tmp_path / "profile") as browser:
        visit(browser, f"{address}/")
        browser.find_element(By.NAME, "question").send_keys(Keys.ENTER)
        WebDriverWait(browser, 20).until(lambda _: browser.find_element(By.TAG_NAME, "p").text)
        hits = [each.text for each in browser.find_elements(By.TAG_NAME, "li")]
        assert browser.find_element(By.TAG_NAME, "p").text == "stopped: node_budget"
        assert len(hits) == 12
        assert all(re.match(r"\d\.\d{3} eip-\d+\.md( > eip-\d+\.md)* \w", hit) for hit in hits)
        assert [each for each in complaints(browser) if "favicon" not in each] == []
        answer = httpx.get(f"{address}/walk", params={"question": "signing keys"})
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text.count("event: hit") == 12
        assert "event: summary" in answer.text
