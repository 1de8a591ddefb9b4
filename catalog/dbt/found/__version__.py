"""Where dbt looks for the adapter's version."""

from streamtime.version import VERSION

version = VERSION
