"""A session with Superset in a browser: what it prints is compared between the servers. argv: the database's URL, a
port, and the browser's program."""

from __future__ import annotations

import json
import sys

from playwright.sync_api import Page, sync_playwright

URL, BASE, PROGRAM = sys.argv[1], f"http://127.0.0.1:{sys.argv[2]}", sys.argv[3]
# The browser runs as root in a container, which has little shared memory and no graphics.
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
WAIT_MS = 120_000


def show(*values: object) -> None:
    print(json.dumps(values))


def log_in(page: Page) -> None:
    page.goto(f"{BASE}/login/")
    for name in ("username", "password"):
        page.fill(f"[data-test={name}-input]", "admin")
    page.click("[data-test=login-button]")
    page.wait_for_url("**/superset/welcome/**", wait_until="commit")


def connect(page: Page) -> None:
    """With the cookies of the browser."""
    wanted = {"database_name": "warehouse", "sqlalchemy_uri": URL, "expose_in_sqllab": True, "allow_dml": True}
    answer = page.request.post(f"{BASE}/api/v1/database/", data=wanted, timeout=WAIT_MS)
    show("database", answer.status)


def run(page: Page, sql: str) -> None:
    page.click(".ace_content")
    for key in ("Control+a", "Delete"):
        page.keyboard.press(key)
    page.keyboard.insert_text(sql)
    page.get_by_role("button", name="Run").first.click()


def in_sql_lab(page: Page) -> None:
    """A query, its answer as a grid, and one that fails."""
    page.goto(f"{BASE}/sqllab/")
    page.get_by_text("Add a new tab").first.click()
    page.locator(".ace_editor").first.wait_for(state="attached")
    page.get_by_text("market", exact=True).first.wait_for()
    run(page, "SELECT customer, sum(amount) AS total, min(at) AS first FROM market.sales GROUP BY 1 ORDER BY 1")
    page.get_by_text("3 rows").first.wait_for()
    show("columns", page.locator("[role=columnheader]").all_inner_texts())
    show("cells", page.locator("[role=gridcell]").all_inner_texts())
    run(page, "SELECT nothing FROM market.sales")
    error = page.get_by_text("resolve the column").first
    error.wait_for()
    show("error", error.inner_text())


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).first.click()
    page.locator(".ant-select-item-option").get_by_text(option, exact=True).first.click()


def make_dataset(page: Page) -> None:
    page.goto(f"{BASE}/dataset/add/")
    choose(page, "Select database or type to search databases", "warehouse")
    choose(page, "Select schema", "market")
    choose(page, "Select table or type to search tables", "sales")
    page.get_by_text("amount", exact=True).first.wait_for()
    show("table", page.locator("table").last.inner_text().split())
    page.get_by_role("button", name="Create and explore dataset").first.click()


def drop(page: Page, name: str, control: str) -> None:
    option = page.locator("[data-test=DatasourcePanelDragOption]").filter(has_text=name).first
    option.drag_to(page.locator(f"[data-test={control}] [data-test=dnd-labels-container]").first)


def make_chart(page: Page) -> None:
    """A table of counts by customer, saved to a new dashboard."""
    page.get_by_alt_text("Table", exact=True).first.click()
    page.get_by_role("button", name="Create new chart").click()
    page.locator("[data-test=DatasourcePanelDragOption]").first.wait_for()
    drop(page, "customer", "groupby")
    drop(page, "COUNT(*)", "metrics")
    page.locator("[data-test=run-query-button]").first.click()
    page.locator("[data-test=chart-container] table td").first.wait_for()
    show("chart", page.locator("[data-test=chart-container] table").last.inner_text().split())
    page.locator("[data-test=query-save-button]").click()
    page.locator("[data-test=new-chart-name]").fill("customers")
    dashboards = page.get_by_role("dialog").get_by_role("combobox").first
    option = page.locator(".ant-select-item-option").get_by_text("Shop", exact=True).first
    # What is typed while the list of dashboards is still loaded is lost.
    for _ in range(20):
        dashboards.click()
        dashboards.fill("")
        dashboards.press_sequentially("Shop")
        page.wait_for_timeout(3000)
        if option.is_visible():
            break
    option.click()
    page.locator("[data-test=btn-modal-save]").click()
    page.locator("[data-test=btn-modal-save]").wait_for(state="detached")


def see_dashboard(page: Page) -> None:
    page.goto(f"{BASE}/dashboard/list/")
    page.get_by_role("link", name="Shop").first.click()
    chart = page.locator("[data-test=dashboard-content-wrapper] table")
    chart.locator("td").first.wait_for()
    show("dashboard", page.title(), chart.last.inner_text().split())


with sync_playwright() as playwright, playwright.chromium.launch(executable_path=PROGRAM, args=OPTIONS) as browser:
    page = browser.new_page(viewport={"width": 1500, "height": 1100})
    page.set_default_timeout(WAIT_MS)
    log_in(page)
    connect(page)
    in_sql_lab(page)
    make_dataset(page)
    make_chart(page)
    see_dashboard(page)
