"""Configuration: sources, precedence, validation; and the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from frontend.command.configuration import (
    OPTION_NAMES,
    Configuration,
    ConfigurationError,
    addresses,
    load_configuration,
    parse_address,
    spark_properties,
    unknown_variables,
)
from frontend.command.logs import psql_command
from frontend.command.main import build_parser, main
from frontend.command.store_names import store_names
from storage.environment.named_stores import StoreNames


def test_defaults() -> None:
    configuration = load_configuration({}, {})
    assert configuration == Configuration()
    assert (configuration.data_dir, configuration.listen, configuration.spark_master) == (
        "./tidegate-data", "127.0.0.1:5433", "local[*]",
    )  # fmt: skip


def test_precedence(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(
        'data_dir = "from-file"\nlisten = "127.0.0.1:1"\nmax_connections = 5\n'
        '[spark_conf]\nspark.driver.memory = "1g"\nspark.ui.enabled = false\n[settings]\ntimezone = "UTC"\n'
    )
    environment = {"TIDEGATE_CONFIG": str(file), "TIDEGATE_LISTEN": "127.0.0.1:2", "TIDEGATE_DATA_DIR": "from-variable"}
    configuration = load_configuration({"data_dir": "from-flag", "listen": None}, environment)
    assert configuration.data_dir == "from-flag"
    assert configuration.listen == "127.0.0.1:2"
    assert configuration.max_connections == 5
    assert configuration.spark_conf == {"spark.driver.memory": "1g", "spark.ui.enabled": "false"}
    assert configuration.settings == {"timezone": "UTC"}


def test_pairs_and_numbers_from_flags_and_variables() -> None:
    configuration = load_configuration(
        {"spark_conf": ["a=b", "c=d=e"], "max_connections": "7", "drain_timeout_s": "1.5"},
        {
            "TIDEGATE_SETTINGS": "timezone=UTC,search_path=a",
            "TIDEGATE_MAX_MESSAGE_BYTES": "65536",
            "TIDEGATE_LISTEN": "",
        },
    )
    assert configuration.spark_conf == {"a": "b", "c": "d=e"}
    assert configuration.settings == {"timezone": "UTC", "search_path": "a"}
    assert (configuration.max_connections, configuration.drain_timeout_s) == (7, 1.5)
    assert configuration.max_message_bytes == 65536
    assert configuration.listen == "127.0.0.1:5433"


@pytest.mark.parametrize(
    ("properties", "packages", "expected"),
    [
        ([], None, {}),
        ([], "a:b:1", {"spark.jars.packages": "a:b:1"}),
        (["spark.jars.packages=c:d:2", "x=y"], "a:b:1,e:f:3", {"spark.jars.packages": "c:d:2,a:b:1,e:f:3", "x": "y"}),
        (["spark.jars.packages=c:d:2"], None, {"spark.jars.packages": "c:d:2"}),
    ],
)
def test_packages_of_spark(properties: list[str], packages: str | None, expected: dict[str, str]) -> None:
    configuration = load_configuration({"spark_conf": properties, "spark_packages": packages}, {})
    assert dict(spark_properties(configuration)) == expected


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        ({"listen": "nowhere"}, {}, "--listen: expected host:port, got 'nowhere'"),
        ({"listen": "h:99999"}, {}, "--listen: expected host:port"),
        ({}, {"TIDEGATE_LISTEN": "x"}, "TIDEGATE_LISTEN: expected host:port, got 'x'"),
        ({}, {"TIDEGATE_MAX_CONNECTIONS": "many"}, "TIDEGATE_MAX_CONNECTIONS: expected an integer, got 'many'"),
        ({"max_connections": "0"}, {}, "--max-connections: expected an integer >= 1, got '0'"),
        ({"event_loop": "x"}, {}, "--event-loop: expected one of asyncio, uvloop, got 'x'"),
        ({"spark_conf": ["novalue"]}, {}, "--spark-conf: expected name=value, got 'novalue'"),
        ({"tls_cert": "c.pem"}, {}, "tls_cert and tls_key must be given together"),
        (
            {"spark_master": "local", "spark_remote": "sc://x"},
            {},
            "--spark-remote and --spark-master exclude each other",
        ),
        ({"config": "/nonexistent/file.toml"}, {}, "cannot read configuration file /nonexistent/file.toml"),
    ],
)
def test_what_is_wrong_is_said(flags: dict[str, object], environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(flags, environment)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope = 1\n", "unknown option 'nope'"),
        ("listen = 5\n", "listen in"),
        ("max_connections = \n", "configuration file"),
        ('spark_conf = "x"\n', "spark_conf in"),
    ],
)
def test_a_wrong_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "t.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_configuration({"config": str(file)}, {})


def test_unknown_variables_are_found_with_what_may_be_meant() -> None:
    environment = {"TIDEGATE_DATADIR": "x", "TIDEGATE_LISTEN": "y", "TIDEGATE_SPARK_CONFIG": "", "TIDEGATE_QQ": "z"}
    assert unknown_variables({**environment, "TIDEGATE_CONFIG": "c", "TIDE": "t"}) == [
        ("TIDEGATE_DATADIR", "TIDEGATE_DATA_DIR"), ("TIDEGATE_QQ", None),
        ("TIDEGATE_SPARK_CONFIG", "TIDEGATE_SPARK_CONF"),
    ]  # fmt: skip


def test_the_variables_of_our_own_tools_are_known() -> None:
    root = Path(__file__).parents[3]
    files = [root / "Makefile", *(file for name in ("tests", "bench", "scripts") for file in (root / name).rglob("*"))]
    used = {
        name
        for file in files
        if file.is_file() and file.suffix in ("", ".py", ".sh") and file != Path(__file__)
        for name in re.findall(r"""(?:environ\b.*["']|\$\{?)(TIDEGATE_[A-Z_]+)""", file.read_text())
    }
    assert used
    assert unknown_variables(dict.fromkeys(used, "1")) == []


def test_addresses() -> None:
    assert parse_address("127.0.0.1:5433") == ("127.0.0.1", 5433)
    assert parse_address("[::1]:0") == ("::1", 0)
    assert addresses(Configuration(listen="127.0.0.1:1, localhost:2")) == [("127.0.0.1", 1), ("localhost", 2)]


def test_every_option_has_a_flag_with_help() -> None:
    serve = next(action for action in build_parser()._actions if hasattr(action, "choices") and action.choices).choices[
        "serve"
    ]  # type: ignore[index]
    destinations = {action.dest for action in serve._actions}
    assert set(OPTION_NAMES) <= destinations
    assert all(action.help for action in serve._actions)


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "serve" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("tidegate ")


def test_usage_errors_have_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "hba"
    rules.write_text("host all all 1.2.3.4 trust\n")
    assert main(["serve", "--hba-file", str(rules)]) == 2
    assert "line 1 of the authentication rules: invalid IP mask" in capsys.readouterr().err
    assert main(["serve", "--hba-file", str(tmp_path / "missing")]) == 2
    assert "could not open configuration file" in capsys.readouterr().err
    assert main(["serve", "--max-connections", "x"]) == 2
    assert capsys.readouterr().err == "tidegate: error: --max-connections: expected an integer, got 'x'\n"


def test_the_line_to_copy() -> None:
    assert psql_command("127.0.0.1", 5433) == 'psql "host=127.0.0.1 port=5433 user=postgres dbname=postgres"'


def test_serve_prints_the_line_refuses_a_taken_port_and_stops_on_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "frontend.command.main", "serve", "--data-dir", str(tmp_path / "data")]
    command += ["--event-loop", "asyncio", "--spark-start", "lazy", "--listen"]
    process = subprocess.Popen(
        [*command, "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r'psql "host=127\.0\.0\.1 port=(\d+) ', line)
        assert found is not None
        address = f"127.0.0.1:{found[1]}"
        second = subprocess.run([*command, address], capture_output=True, text=True, check=False, timeout=120)
        assert second.returncode == 1
        assert second.stderr.startswith(f"tidegate: error: cannot listen on {address}: ")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.kill()
        process.communicate()


SERVE = ("serve", "--listen", "127.0.0.1:0", "--event-loop", "asyncio", "--spark-start", "lazy")


def serve(data_dir: Path, *arguments: str) -> subprocess.Popen[str]:
    """`tidegate serve` on a free port."""
    command = [sys.executable, "-m", "frontend.command.main", *SERVE, "--data-dir", str(data_dir), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def test_serve_has_company_and_stops_on_a_signal(tmp_path: Path) -> None:
    servers: list[subprocess.Popen[str]] = []
    try:
        for _ in range(2):
            servers.append(serve(tmp_path / "data"))
            assert servers[-1].stdout is not None
            assert servers[-1].stdout.readline().startswith('psql "host=127.0.0.1 port=')
        for server in servers:
            server.send_signal(signal.SIGTERM)
            assert server.wait() == 0
    finally:
        for server in servers:
            server.kill()
            server.communicate()


def test_what_cannot_be_served_is_named(tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "consensus.sqlite").write_text("a shopping list, and nothing that SQLite would know")
    (tmp_path / "half" / "blob" / "parts" / "x").mkdir(parents=True)
    (tmp_path / "half" / "blob" / "parts" / "x" / "y.parquet").write_text("somebody's data")
    for name, hint in (("foreign", "choose another data directory"), ("half", "restore the consensus store")):
        server = serve(tmp_path / name)
        _, error = server.communicate()
        assert server.returncode == 1
        assert error.startswith("tidegate: error: ")
        assert hint in error


def test_a_server_warns_of_unknown_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_MAX_CONNECTION", "5")
    server = serve(tmp_path / "data", "--set", "nosuch=1")
    _, error = server.communicate()
    warning = error.splitlines()[0]
    assert "warning" in warning
    assert "unknown environment variable" in warning
    assert "variable=TIDEGATE_MAX_CONNECTION" in warning
    assert "did_you_mean=TIDEGATE_MAX_CONNECTIONS" in warning


def test_default_settings_that_are_wrong_are_named(tmp_path: Path) -> None:
    for given, fault in (
        ("timezone=Nowhere", 'invalid value for parameter "TimeZone": "Nowhere"'),
        ("nosuch=1", 'unrecognized configuration parameter "nosuch"'),
    ):
        server = serve(tmp_path / "data", "--set", given)
        _, error = server.communicate()
        assert server.returncode == 1
        assert error == f"tidegate: error: settings: {fault}\n"


@pytest.mark.parametrize("command", ["serve", "admin"])
def test_stores_that_are_none_are_named(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    action = ["overview"] if command == "admin" else []
    for option, value in (("--consensus", "mysql://localhost/x"), ("--blob", "nowhere://bucket")):
        assert main([command, "--data-dir", str(tmp_path), option, value, *action]) in (1, 2)
        assert value in capsys.readouterr().err


def test_where_an_environment_is(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(
        'consensus = "postgresql://a@b/c?schema=d"\nblob = "s3://bucket/prefix"\n'
        '[blob_options]\nregion = "eu-central-1"\n'
    )
    names = store_names(load_configuration({"config": str(file), "data_dir": "here"}, {}))
    assert names == StoreNames(
        data_dir=Path("here"),
        consensus="postgresql://a@b/c?schema=d",
        blob="s3://bucket/prefix",
        blob_options={"region": "eu-central-1"},
    )
    assert names.blob_folder is None
    variables = {"TIDEGATE_BLOB": "file:///srv/my%20lake", "TIDEGATE_BLOB_OPTIONS": "region=x,endpoint=http://h:1/?a=b"}
    names = store_names(load_configuration({"config": str(file)}, variables))
    assert names.blob_folder == Path("/srv/my lake")
    assert names.blob_options == {"region": "x", "endpoint": "http://h:1/?a=b"}
    assert StoreNames(data_dir=Path("d")).blob_folder == Path("d/blob")
