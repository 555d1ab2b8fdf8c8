"""Sessions of clients: programs and scripts that print what they see."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.clients_basic.client import PROJECTS, Place, run_tool

_SESSION_S = 600.0


def of_program(feature: str) -> Callable[[Place], Sequence[str]]:
    """The lines that the program `client` of the install prints, given the database's URL and the feature."""
    return lambda place: run_tool(place.installed / "client", place.url(), feature, cwd=place.folder).splitlines()


def of_script(project: str, script: str, *features: str) -> Callable[[Place], Sequence[str]]:
    """The lines that `projects/PROJECT/SCRIPT` prints, run by the Python of the install with the same arguments."""

    def check(place: Place) -> Sequence[str]:
        command = (place.installed / "bin" / "python", "-W", "ignore", PROJECTS / project / script)
        return run_tool(*command, place.url(), *features, cwd=place.folder, timeout_s=_SESSION_S).splitlines()

    return check
