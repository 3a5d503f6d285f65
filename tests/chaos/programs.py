"""How the processes of a chaos run are started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from tests.chaos.diary import WRITER
from tests.chaos.form import Form
from tests.chaos.posts import Program, Role
from tests.chaos.script import session_ids

COMPRESSION: dict[str, Any] = {
    "protect_first_n": 1,
    "protect_last_n": 4,
    "threshold_tokens": 1500,
    "micro_compact_min_tokens": 100,
    "verbatim_user_tokens": 400,
    "failure_cooldown_seconds": 5,
    "hygiene_failure_cooldown_seconds": 5,
}
"""So that passes are frequent and cheap."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Gives the program of a process by its role, its name and the error of its host's clock."""

    form: Form
    directory: Path
    database_url: str
    broker_url: str | None

    def configure(self, model_url: str) -> None:
        """Write the configuration file that all processes read."""
        model = {"provider": "openai", "model": "chaos", "base_url": model_url}
        settings = {
            "compression": COMPRESSION,
            "auxiliary": {"compression": model},
            "worker": {"concurrency": 4, "lease_seconds": self.form.lease_seconds},
            "schedule": {"reconcile_seconds": 1.0, "orphans_seconds": 5.0},
        }
        self._config.write_text(yaml.safe_dump(settings))

    def __call__(self, role: Role, name: str, skew: float) -> Program:
        match role:
            case Role.WORKER:
                words = self._worker(name, skew)
            case Role.BEAT:
                words = self._beat(skew)
            case Role.GATEWAY:
                words = self._gateway(int(name[1:].partition(".")[0]))
        return Program(words, self._environment(name))

    def journal(self, gateway: int) -> Path:
        """Return where a gateway keeps its journal."""
        return self.directory / f"g{gateway}.journal"

    @property
    def _config(self) -> Path:
        return self.directory / "config.yaml"

    def _worker(self, name: str, skew: float) -> list[str]:
        order = str(self.directory / f"{name.partition('.')[0]}.doom")
        words = ["-m", "tests.chaos.worker", "--name", name, "--doom", order, "--skew", str(skew)]
        return words if self.broker_url else [*words, "--embedded"]

    def _beat(self, skew: float) -> list[str]:
        # Without the file of its usual scheduler: two beats do not share one, and it keeps times.
        words = ["-m", "tests.chaos.beat", "--skew", str(skew)]
        return [*words, "--scheduler", "celery.beat:Scheduler", "--pidfile", ""]

    def _gateway(self, place: int) -> list[str]:
        form = self.form
        return [
            *("-m", "tests.chaos.gateways", "--seed", str(form.seed)),
            *("--sessions", ",".join(sessions_of(form, place))),
            *("--turns", str(turns_of(form, place)), "--pace", str(form.pace)),
            *("--journal", str(self.journal(place))),
        ]

    def _environment(self, name: str) -> dict[str, str]:
        url = self.database_url
        if url.startswith("postgresql"):
            # The second one is what the engine sets by itself where nobody gives options.
            server_options = f"-c {WRITER}={name} -c idle_in_transaction_session_timeout=30000"
            url += f"?options={quote(server_options)}"
        given = {
            "DATABASE_URL": url,
            "AFTERTURN_CONFIG": str(self._config),
            # So that the model knows who asks.
            "OPENAI_API_KEY": name,
            "NO_PROXY": "127.0.0.1",
        }
        return {**given, "BROKER_URL": self.broker_url} if self.broker_url else given


def sessions_of(form: Form, gateway: int) -> list[str]:
    """Return the sessions in which a gateway says turns."""
    return session_ids(form.sessions)[gateway :: form.gateways]


def turns_of(form: Form, gateway: int) -> int:
    """Return how many turns it says."""
    return form.turns // form.gateways + (gateway < form.turns % form.gateways)
