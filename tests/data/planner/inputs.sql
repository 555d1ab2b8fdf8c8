-- type|text, one input of a type's input function each; \n and \t stand for themselves
boolean|t
boolean|TRUE
boolean| tru 
boolean|yes
boolean|y
boolean|on
boolean|1
boolean|o
boolean|of
boolean|off
boolean|n
boolean|no
boolean|
boolean|2
smallint|32767
smallint|32768
smallint|-32768
smallint|+5
smallint|1.5
smallint| 12 
integer|2147483647
integer|2147483648
integer|-2147483648
integer|
integer|0x1F
integer|1e3
integer|12 3
integer|- 5
integer|00012
bigint|9223372036854775807
bigint|9223372036854775808
bigint|abc
oid|4294967295
oid|4294967296
oid|-1
oid|x
real|1.5
real|3.4e38
real|3.5e38
real|1e-45
real|1e-50
real|0.1
real|1e10
real|123456789
real|1e6
real|1e5
real|-0
real|NaN
real|-inf
double precision|0.1
double precision|1e308
double precision|1e309
double precision|-1e309
double precision|1e-400
double precision|1e15
double precision|1e14
double precision|1e16
double precision|123456789012345680
double precision|0.0001
double precision|0.00001
double precision|1.
double precision|.5
double precision|.
double precision|1e
double precision|Infinity
double precision|-Infinity
double precision|nan
double precision|inf
double precision|12abc
double precision| 1.5 
double precision|1_000
double precision|-0.0
double precision|100
double precision|1e22
double precision|4.9e-324
numeric|1.50
numeric|-1.50
numeric|+1.5
numeric|1e3
numeric|1e-3
numeric|1.5e2
numeric|.5
numeric|5.
numeric|.
numeric|NaN
numeric|Infinity
numeric|-inf
numeric|abc
numeric|1 2
numeric|0.000
numeric|-0
numeric|00.10
numeric(5,2)|123.456
numeric(5,2)|999.994
numeric(5,2)|999.995
numeric(5,2)|-999.995
numeric(5,2)|1234
numeric(5,2)|0.005
numeric(5,2)|-0.005
numeric(5,2)|Infinity
numeric(5,2)|NaN
numeric(3)|999.4
numeric(3)|999.5
text|abc
text|
varchar(3)|abc
varchar(3)|abc  
varchar(3)|abcd
varchar(3)|éèà
char(3)|a
char(3)|abc   
char(3)|abcd
"char"|abc
"char"|
name|abc
bytea|\x00ff
bytea|\xABCD
bytea|\x0
bytea|\xzz
bytea|\x 00 ff
bytea|abc
bytea|a\\b
bytea|a\101b
bytea|a\1b
bytea|a\
uuid|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
uuid|A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11
uuid|{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}
uuid|a0eebc999c0b4ef8bb6d6bb9bd380a11
uuid|a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11
uuid|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1
uuid|{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
uuid|xyz
date|2024-01-05
date|2024-1-5
date|20240105
date|240105
date|January 5, 2024
date|Jan 5 2024
date|5 Jan 2024
date|5-Jan-2024
date|Jan-5-2024
date|2024-Jan-5
date|1/5/2024
date|1/5/24
date|13/5/2024
date|01/05/99
date|1.5.2024
date|2024.01.05
date|2024/01/05
date|2024 01 05
date|2024.005
date|J2451187
date|epoch
date|infinity
date|-infinity
date|+infinity
date|2024-02-29
date|2023-02-29
date|2024-13-01
date|2024-00-01
date|2024-01-32
date|2024-01-00
date|0001-01-01
date|9999-12-31
date|0000-01-01
date|99-01-05
date|today is
date|
date|abc
date|2024-01-05 10:00
date|2024-01-05T10:00:00Z
date|2024-01
date|2024
date|Fri Jan 5 2024
date|2024-01-05 AD
date|5 January
time|10:00
time|10:00:00
time|10:00:00.123456
time|10:00:00.1234567
time|10:00:00.9999999
time|100000
time|1000
time|10:00 PM
time|10:00 am
time|12:00 am
time|12:00 pm
time|13:00 pm
time|10:60
time|10:00:60
time|10:00:61
time|25:00
time|allballs
time|10:00+02
time|10:00 UTC
time|2024-01-05 10:00
time|abc
time|
time(2)|10:00:00.126
timetz|10:00:00+02
timetz|10:00:00-05:30
timetz|10:00
timetz|10:00 UTC
timetz|10:00:00.5Z
timetz|abc
timestamp|2024-01-05 10:00:00
timestamp|2024-01-05T10:00:00
timestamp|2024-01-05T10:00:00.123456789
timestamp|2024-01-05 10:00
timestamp|2024-01-05
timestamp|20240105T100000
timestamp|20240105100000
timestamp|20240105 100000
timestamp|2024-01-05 10:00:00+02
timestamp|2024-01-05 10:00:00 PM
timestamp|Fri Jan 05 10:00:00 2024
timestamp|Jan 5 10:00:00 2024
timestamp|5 Jan 2024 10:00
timestamp|10:00 2024-01-05
timestamp|epoch
timestamp|infinity
timestamp|-infinity
timestamp|2024-01-05 24:00:00
timestamp|2024-01-05 24:00:01
timestamp|2024-01-05 23:59:60
timestamp|2024-01-05 10:00:00.5
timestamp|2024-01-05 10:00:00,5
timestamp|2024-02-30 10:00
timestamp|2024-13-30 10:00
timestamp|abc
timestamp|
timestamp|2024-01-05 10
timestamp|2024-01-05 abc
timestamp|1/5/2024 3:04 PM
timestamp(0)|2024-01-05 10:00:00.5
timestamp(3)|2024-01-05 10:00:00.123567
timestamptz|2024-01-05 10:00:00
timestamptz|2024-01-05 10:00:00+02
timestamptz|2024-01-05 10:00:00+02:30
timestamptz|2024-01-05 10:00:00-0330
timestamptz|2024-01-05 10:00:00 +02
timestamptz|2024-01-05 10:00:00Z
timestamptz|2024-01-05T10:00:00.123Z
timestamptz|2024-01-05 10:00:00 UTC
timestamptz|2024-01-05 10:00:00 PST
timestamptz|2024-01-05 10:00:00 EST
timestamptz|2024-07-05 10:00:00 America/New_York
timestamptz|2024-01-05 10:00:00 America/New_York
timestamptz|2024-01-05 10:00:00 Europe/Berlin
timestamptz|2024-01-05 10:00:00 europe/berlin
timestamptz|2024-01-05 10:00:00 Nowhere/Land
timestamptz|2024-01-05 10:00:00 XYZ
timestamptz|2024-01-05 10:00:00+16
timestamptz|2024-01-05 10:00:00+15:59
timestamptz|2024-01-05 10:00:00+02:60
timestamptz|infinity
timestamptz|epoch
timestamptz|2024-01-05
interval|1 day
interval|1 days
interval|2 weeks
interval|1 month
interval|1 mon
interval|1 year
interval|1 decade
interval|1 century
interval|1 millennium
interval|1 hour
interval|1 minute
interval|1 second
interval|1.5 seconds
interval|1 ms
interval|1 us
interval|1.5 hours
interval|1.5 days
interval|1.5 weeks
interval|1.5 months
interval|1.5 years
interval|0.1 month
interval|-1 day
interval|1 day ago
interval|-1 day ago
interval|1 day -1 hour
interval|1 year 2 months 3 days 4 hours 5 minutes 6.789 seconds
interval|1y 2mon 3d 4h 5m 6s
interval|1 day 04:05:06
interval|1 day 04:05
interval|04:05:06
interval|04:05:06.789
interval|-04:05:06
interval|04:05
interval|100:00:00
interval|3 4:05:06
interval|1-2
interval|-1-2
interval|1-2 3 4:05:06
interval|1-13
interval|P1Y2M3DT4H5M6S
interval|P1Y
interval|PT1H
interval|P1W
interval|PT1.5S
interval|P-1Y
interval|P1.5D
interval|PT
interval|P
interval|@ 1 day 2 hours
interval|@ 1 minute ago
interval|1
interval|1.5
interval|abc
interval|
interval|1 day 1 day
interval|1 foo
interval|1 day foo
interval|1 month 1 mon
interval|00:00:00
interval|0
interval|2147483648 days
interval|-0.5 months
interval|1 quarter
interval|30 days 24 hours
interval|1 hour 90 minutes
integer[]|{1,2,3}
integer[]|{}
integer[]| { 1 , 2 } 
integer[]|{1,NULL,3}
integer[]|{{1,2},{3,4}}
integer[]|{{1,2},{3}}
integer[]|{1,{2}}
integer[]|{1,2
integer[]|1,2}
integer[]|{1,2}}
integer[]|{1,,2}
integer[]|{a}
integer[]|{,}
integer[]|{1 2}
integer[]|
text[]|{a,b}
text[]|{"a b",c}
text[]|{"a\"b","c\\d"}
text[]|{null,"null",NULL}
text[]|{a b,c}
text[]|{ a , b }
text[]|{"",x}
text[]|{a"b}
text[]|{"a"b}
text[]|{a\,b}
text[]|{é,ü}
text[]|{{a,b},{c,d}}
varchar(2)[]|{abc}
numeric(5,1)[]|{1.25,2}
boolean[]|{t,f,true}
date[]|{2024-01-05}
timestamp[]|{"2024-01-05 10:00:00"}
bytea[]|{"\\x00ff"}
json|{"a": 1}
json|{"a":1,"a":2}
json|  [1, 2]  
json|"x"
json|1.50
json|null
json|true
json|{a:1}
json|{"a":}
json|{"a":1
json|
json|[1,]
json|nul
json|01
json|1.
json|"\u00e9"
json|"\x"
jsonb|{"b":1,"a":2}
jsonb|{"aa":1,"b":2}
jsonb|{"a":1,"a":2}
jsonb|[1, 2.50, 1e2, -0, 1.0e-2]
jsonb|"\u00e9\n\t\"\\/"
jsonb|"\u0000"
jsonb|{"a":{"b":[]}}
jsonb|{}
jsonb|[]
jsonb|{"a":
jsonb|'x'
jsonb|"\ud83d\ude00"
jsonb|"\ud83d"
int2vector|1 2 3
oidvector|1 2
xid|123
regclass|pg_class
regclass|pg_catalog.pg_class
regclass|"pg_class"
regclass|nosuch
regclass|1259
regtype|integer
regtype|int4[]
regtype|nosuch
regproc|now
regproc|nosuch
regprocedure|abs(integer)
regnamespace|pg_catalog
regnamespace|nosuch
