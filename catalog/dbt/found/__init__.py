"""Where dbt looks for `type: streamtime`: installed as `dbt.adapters.streamtime`."""

from streamtime.dbt import adapter

Plugin = adapter.PLUGIN
