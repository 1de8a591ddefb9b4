"""dbt: the adapter `type: streamtime`, the package of macros and tests, and projects as plain SQL. The only importer of `dbt`."""
