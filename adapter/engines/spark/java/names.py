"""Names of the JVM that are looked up once.

py4j asks the JVM for each name on the way to a class, at each use, and the JVM answers for a package when no jar has a
class of that name, in any of the packages that are imported: a search of some 300 jars, a millisecond each. What
PySpark does with an error alone are some 60 such questions.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaGateway, JavaMember, JavaPackage, JVMView


def remember_names(gateway: JavaGateway) -> None:
    """Has `gateway.jvm` ask the JVM once for each package, class and static method."""
    view = gateway.jvm
    gateway.jvm = _View(view._gateway_client, view._jvm_name, id=view._id)


class _View(JVMView):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _remembered(self, name, super().__getattr__(name))


class _Package(JavaPackage):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _remembered(self, name, super().__getattr__(name))


class _Class(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _remembered(self, name, super().__getattr__(name))


def _remembered(holder: Any, name: str, found: Any) -> Any:
    """What `found` is to be known as: by `holder` itself when it stays what it is."""
    if type(found) is JavaPackage:
        # A class that is not there yet, or not imported, is answered for as a package.
        if not name.islower():
            return found
        found = _Package(found._fqn, found._gateway_client, found._jvm_id)
    elif type(found) is JavaClass:
        found = _Class(found._fqn, found._gateway_client)
    elif not isinstance(found, JavaMember):
        return found  # A static field has a value of its moment.
    vars(holder)[name] = found
    return found
