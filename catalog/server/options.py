"""What a server is asked to be, and what is refused before anything starts: doors to other machines without a lock."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

LOOPBACK = "127.0.0.1"
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # where Spark's Connect server looks, too
RESERVED = {  # settings that would open a door beside the options, and the option to use
    "spark.connect.grpc.binding.": "--host and --connect-port",
    "spark.connect.authenticate.": "--connect-token-file",
    "spark.hadoop.hive.server2.": "--host, --thrift-port, --passwords and --tls-keystore",
    "spark.hive.server2.": "--host, --thrift-port, --passwords and --tls-keystore",
    "spark.plugins": "--connect-port: `serve` starts Spark Connect itself, once the functions are registered",
    "spark.master": "--master",
}
SHORTEST_TOKEN = 16


class CannotServe(Exception):
    """The server will not start like this; the message says why, and what to do."""


@dataclass(frozen=True)
class Options:
    """What `streamtime serve` was given. A port of 0 is any free one; None leaves that door shut."""

    host: str = LOOPBACK
    connect_port: int | None = 15002
    thrift_port: int | None = 10000
    health_host: str = LOOPBACK
    health_port: int | None = 15003
    token_file: Path | None = None
    passwords: Path | None = None
    keystore: Path | None = None
    keystore_password_file: Path | None = None
    grace: int = 30  # seconds that running queries have, once the server is told to stop
    ready_file: Path | None = None
    master: str | None = None
    cores: str = "*"
    memory: str = "2g"
    settings: dict[str, str] = field(default_factory=dict)
    warehouse: Path | None = None  # None: tables go with the server
    spark_log: Path | None = None


def check(options: Options) -> None:
    """Raises CannotServe if the server must not start like this."""
    if options.warehouse and not has_jar("spark-hive"):
        raise CannotServe("this Spark has no Hive, and without it no catalog lasts: give --temporary, or use PySpark as pip installs it")
    for door, port, jar in (("connect", options.connect_port, "spark-connect"), ("thrift", options.thrift_port, "spark-hive-thriftserver")):
        if port is not None and not has_jar(jar):
            raise CannotServe(f"this Spark has no {jar}: give --{door}-port off, or use PySpark as pip installs it")
    if options.connect_port is None and options.thrift_port is None:
        raise CannotServe("both doors are shut: give --connect-port or --thrift-port a number")
    for key in options.settings:
        for reserved, instead in RESERVED.items():
            if key.startswith(reserved):
                raise CannotServe(f"--conf {key}: use {instead}")
    if options.keystore and not options.keystore_password_file:
        raise CannotServe("--tls-keystore needs --tls-password-file, a file that holds the keystore's password")
    if options.keystore and not options.keystore.is_file():
        raise CannotServe(f"--tls-keystore: there is no file {options.keystore}")
    if not local(options.master) and "spark.driver.host" not in options.settings:
        raise CannotServe(
            f"--master {options.master}: its executors must reach this driver. Give --conf spark.driver.host=ADDRESS, this machine's as "
            "they see it; and set spark.authenticate to true on both sides, unless the network is yours alone"
        )
    if loopback(options.host):
        return
    beyond = f"--host {options.host} can be reached from other machines"
    if options.connect_port is not None and not token(options):
        raise CannotServe(f"{beyond}, so Spark Connect needs --connect-token-file FILE, or --connect-port off")
    if options.thrift_port is not None and not options.passwords:
        raise CannotServe(f"{beyond}, so JDBC needs --passwords FILE (`streamtime password USER` makes its lines), or --thrift-port off")
    if options.thrift_port is not None and not options.keystore:
        raise CannotServe(f"{beyond}, so JDBC needs --tls-keystore FILE: else passwords would travel as they are. Or --thrift-port off")


def loopback(host: str) -> bool:
    """Whether only this machine can reach that address, by whatever of its addresses."""
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise CannotServe(f"there is no address {host}: {error}") from None
    return all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in addresses)


def has_jar(name: str) -> bool:
    """Whether the Spark at hand has that jar of its own."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return any(Path(home, "jars").glob(f"{name}_*.jar"))


def local(master: str | None) -> bool:
    """Whether all executors run on this machine."""
    return master is None or master.startswith("local")


def token(options: Options) -> str:
    """The token that Spark Connect's clients must show; '' for none."""
    if options.token_file is None:
        return os.environ.get(TOKEN, "")
    secret_given = secret(options.token_file, "--connect-token-file")
    if len(secret_given) < SHORTEST_TOKEN or not secret_given.isascii() or not secret_given.isprintable() or " " in secret_given:
        raise CannotServe(
            f"--connect-token-file: expected at least {SHORTEST_TOKEN} letters, digits and signs in {options.token_file}, such as "
            "`openssl rand -hex 32` makes"
        )
    return secret_given


def secret(path: Path, option: str) -> str:
    """The text of a file that nobody else may read, without white space around it."""
    try:
        if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise CannotServe(f"{option}: others may read {path}. Run: chmod 600 {path}")
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotServe(f"{option}: {path} cannot be read: {error}") from None
