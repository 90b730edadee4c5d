"""Sums over exported tables, by DuckDB."""

import json
import sys

import duckdb

folder = sys.argv[1]


def rows(query):
    return duckdb.sql(query.replace("DIR", folder)).fetchall()


print(
    json.dumps(
        {
            "events": rows("select count(*) from 'DIR/events.csv'")[0][0],
            "invalid": rows("select count(*) from 'DIR/events.csv' where not json_valid(fields)")[0][0],
            "switches": rows(
                "select count(*), sum((fields->>'next_tid')::bigint)::bigint"
                " from 'DIR/events.csv' where name = 'sched_switch'"
            ),
            "run_ns": rows(
                "select tid, sum(ns)::bigint from 'DIR/states.csv'"
                " where state = 'running' and ended group by all"
            ),
            "delays": rows(
                "select signal, tid, number, count(*), sum(ns)::bigint, max(ns) from 'DIR/delays.csv' group by all"
            ),
            "charges": rows("select list, tid, sum(ns)::bigint from 'DIR/charges.csv' group by all"),
        }
    )
)
