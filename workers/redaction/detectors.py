"""Patterns of vendors' secrets. Importing this module loads `detect_secrets`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

# The plugins whose patterns match a secret from end to end in linear time. Left out: keyword and
# entropy plugins (they take ids, hashes and prose), OpenAI, JWT and npm (quadratic on long runs;
# see `formats._PREFIXED`), Artifactory, Cloudant, IBM and SoftLayer (they match ordinary words or
# need a name that the rules by name know already), IP addresses (no secrets).
_DETECTORS: tuple[RegexBasedDetector, ...] = (
    AWSKeyDetector(),
    AzureStorageKeyDetector(),
    DiscordBotTokenDetector(),
    GitHubTokenDetector(),
    GitLabTokenDetector(),
    MailchimpDetector(),
    PypiTokenDetector(),
    SendGridDetector(),
    SlackDetector(),
    SquareOAuthDetector(),
    StripeDetector(),
    TelegramBotTokenDetector(),
    TwilioKeyDetector(),
)


def _patterns(detector: RegexBasedDetector) -> Sequence[re.Pattern[str]]:
    found = tuple(detector.denylist)
    # The second AWS pattern spans a name and its value, which the rules by name take apart.
    return found[:1] if isinstance(detector, AWSKeyDetector) else found


DETECTED = tuple(pattern for detector in _DETECTORS for pattern in _patterns(detector))
