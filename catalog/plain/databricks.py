"""What Databricks has of Spark's functions, by its SQL language manual: plain SQL for it uses no others. It has not been run there.

Each name is that of a page below `MANUAL`, read on 2026-11-25 and 27; functions of types that Spark does not have are left out.
"""

from __future__ import annotations

import itertools

from streamtime.sql.syntax.tokens import Source

MANUAL = "https://docs.databricks.com/aws/en/sql/language-manual/functions/"
NAMES = """
abs acos acosh add_months aes_decrypt aes_encrypt aggregate any_value approx_count_distinct approx_percentile array array_agg array_append
array_compact array_contains array_distinct array_except array_insert array_intersect array_join array_max array_min array_position
array_prepend array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2
atanh avg base64 bigint bin binary bit_and bit_count bit_get bit_length bit_or bit_reverse bit_xor bool_and bool_or boolean bround btrim
cardinality cast cbrt ceil ceiling char char_length character_length charindex chr coalesce collation collect_list collect_set concat
concat_ws contains conv corr cos cosh cot count count_if covar_pop covar_samp crc32 csc cume_dist curdate current_catalog current_database
current_date current_schema current_timestamp current_timezone current_user date date_add date_diff date_format date_from_unix_date
date_part date_sub date_trunc dateadd datediff day dayname dayofmonth dayofweek dayofyear decimal decode degrees dense_rank double e
element_at elt encode endswith equal_null every exists exp explode explode_outer expm1 extract factorial filter find_in_set first
first_value flatten float floor forall format_number format_string from_csv from_json from_unixtime from_utc_timestamp from_xml get
get_json_object greatest grouping hash hex histogram_numeric hour hypot if ifnull initcap inline inline_outer input_file_name instr int
is_valid_utf8 is_variant_null isnan isnotnull isnull json_array_length json_object_keys json_tuple kurtosis lag last last_day last_value
lcase lead least left len length levenshtein listagg ln locate log log10 log1p log2 lower lpad ltrim luhn_check make_date make_timestamp map
map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask max max_by md5
mean median min min_by minute mod mode monotonically_increasing_id month months_between named_struct nanvl negative next_day now nth_value
ntile nullif nullifzero nvl nvl2 octet_length overlay parse_json parse_url percent_rank percentile percentile_approx percentile_cont
percentile_disc pi pmod posexplode posexplode_outer position positive pow power quarter radians raise_error rand randn random range rank
reduce regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace reverse right rint rlike
round row_number rpad rtrim schema_of_csv schema_of_json schema_of_xml second sequence session_user session_window sha sha1 sha2 shiftleft
shiftright shiftrightunsigned shuffle sign signum sin sinh size skewness slice smallint sort_array soundex space spark_partition_id split
split_part sqrt stack startswith std stddev stddev_pop stddev_samp str_to_map string string_agg struct substr substring substring_index sum
table_changes tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff tinyint to_binary to_char
to_csv to_date to_json to_number to_timestamp to_unix_timestamp to_utc_timestamp to_variant_object to_xml transform transform_keys
transform_values translate trim trunc try_add try_avg try_divide try_element_at try_mod try_multiply try_parse_json try_subtract try_sum
try_to_binary try_to_number try_to_timestamp try_variant_get typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_seconds
unix_timestamp upper url_decode url_encode user uuid var_pop var_samp variance variant_explode variant_get version weekday weekofyear
width_bucket window window_time xxhash64 year zeroifnull zip_with
"""
FUNCTIONS = frozenset(NAMES.split())
# Behind which a parenthesis is not that of a call; try_cast has a page, too
WORDS = """
all and any as between by case cast decimal distinct div else exists from ilike in join like not on or over select then try_cast union using
values varchar when where
"""


def missing(text: str) -> list[str]:
    """The functions that a SQL text calls, and the manual has not."""
    tokens = Source(text).tokens
    called = {t.text.lower() for t, after in itertools.pairwise(tokens) if t.kind == "word" and after.text == "("}
    return sorted(called - FUNCTIONS - {*WORDS.split()})
