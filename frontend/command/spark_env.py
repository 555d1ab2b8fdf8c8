"""`tidegate spark-env`: the archive of Python that the executors of a cluster unpack."""

from __future__ import annotations

import argparse
import platform
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from adapter.engines.spark.cluster.environment_archive import write_environment

FOLDER = "environment"
"""What executors unpack the archive as."""


def run(arguments: argparse.Namespace) -> int:
    """Writes the archive and says how it is used; returns the exit status."""
    path = Path(arguments.output).absolute()
    try:
        write_environment(path)
    except (OSError, PackageNotFoundError) as error:
        sys.stderr.write(f"tidegate: error: cannot write {path}: {error}\n")
        return 1
    size = path.stat().st_size / 1e6
    sys.stdout.write(
        f"wrote {path}: {size:.0f} MB, Python {platform.python_version()} for {platform.system()} on "
        f"{platform.machine()}. Servers send it to their executors with\n"
        f"  --spark-conf spark.archives={path}#{FOLDER}\n"
        f"  --spark-conf spark.pyspark.python=./{FOLDER}/bin/python\n"
    )
    return 0
