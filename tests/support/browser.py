"""A real browser for tests of pages: Debian's Chromium without a window."""

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.support.ui import WebDriverWait

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # Chromium has no sandbox as root and in containers
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1280,800",
)


@contextmanager
def chromium(profile: Path, *, javascript: bool = True):
    """Start the browser with a new profile in a folder; skip the test if it is not installed."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = binary
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if not javascript:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    browser = Chrome(options=options, service=ChromeService(executable_path=driver))
    try:
        yield browser
    finally:
        browser.quit()


def visit(browser, address: str) -> None:
    """Open a page and wait until its scripts have run; the driver may return earlier."""
    browser.get(address)
    script = "return location.href === arguments[0] && document.readyState === 'complete'"
    WebDriverWait(browser, 30, poll_frequency=0.02).until(lambda _: browser.execute_script(script, address))


def complaints(browser) -> list[str]:
    """Return the console messages since the last call: errors, warnings, policy violations."""
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser) -> list[str]:
    """Return the addresses that pages have requested since the last call.

    Pages of the browser itself do not count.
    """
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [each["request"]["url"] for each in sent if not each["documentURL"].startswith("chrome")]
