-- What grew run by run has the rows of one run over everything.
(select * from {{ ref('pages_log') }} except all select * from {{ ref('pages') }})
union all
(select * from {{ ref('pages') }} except all select * from {{ ref('pages_log') }})
