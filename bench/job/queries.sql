-- 1
SELECT min(mc.note) AS production_note, min(t.title) AS movie_title, min(t.production_year) AS movie_year
FROM company_type ct, info_type it, movie_companies mc, movie_info_idx mi_idx, title t
WHERE ct.kind = 'production companies' AND it.info = 'top 250 rank'
  AND mc.note NOT LIKE '%(as Metro-Goldwyn-Mayer Pictures)%'
  AND (mc.note LIKE '%(co-production)%' OR mc.note LIKE '%(presents)%')
  AND ct.id = mc.company_type_id AND t.id = mc.movie_id AND t.id = mi_idx.movie_id AND mc.movie_id = mi_idx.movie_id
  AND it.id = mi_idx.info_type_id;
-- 2
SELECT min(t.title) AS movie_title
FROM company_name cn, keyword k, movie_companies mc, movie_keyword mk, title t
WHERE cn.country_code = '[de]' AND k.keyword = 'character-name-in-title' AND cn.id = mc.company_id
  AND mc.movie_id = t.id AND t.id = mk.movie_id AND mk.keyword_id = k.id AND mc.movie_id = mk.movie_id;
-- 3
SELECT min(t.title) AS movie_title
FROM keyword k, movie_info mi, movie_keyword mk, title t
WHERE k.keyword LIKE '%sequel%' AND mi.info IN ('Sweden', 'Norway', 'Germany', 'Denmark', 'USA', 'French')
  AND t.production_year > 2005 AND t.id = mi.movie_id AND t.id = mk.movie_id AND mk.movie_id = mi.movie_id
  AND k.id = mk.keyword_id;
-- 4
SELECT min(mi_idx.info) AS rating, min(t.title) AS movie_title
FROM info_type it, keyword k, movie_info_idx mi_idx, movie_keyword mk, title t
WHERE it.info = 'rating' AND k.keyword LIKE '%sequel%' AND mi_idx.info > '5.0' AND t.production_year > 2005
  AND t.id = mi_idx.movie_id AND t.id = mk.movie_id AND mk.movie_id = mi_idx.movie_id AND k.id = mk.keyword_id
  AND it.id = mi_idx.info_type_id;
-- 5
SELECT min(t.title) AS typical_european_movie
FROM company_type ct, info_type it, movie_companies mc, movie_info mi, title t
WHERE ct.kind = 'distributors' AND mc.note LIKE '%(theatrical)%' AND mc.note LIKE '%(France)%'
  AND mi.info IN ('Drama', 'Horror', 'France', 'French') AND t.production_year > 2000 AND t.id = mi.movie_id
  AND t.id = mc.movie_id AND mc.movie_id = mi.movie_id AND ct.id = mc.company_type_id AND it.id = mi.info_type_id;
-- 6
SELECT min(k.keyword) AS movie_keyword, min(n.name) AS actor_name, min(t.title) AS movie_title
FROM cast_info ci, keyword k, movie_keyword mk, name n, title t
WHERE k.keyword = 'marvel-cinematic-universe' AND n.name LIKE '%Downey%Robert%' AND t.production_year > 2000
  AND k.id = mk.keyword_id AND t.id = mk.movie_id AND t.id = ci.movie_id AND ci.movie_id = mk.movie_id
  AND n.id = ci.person_id;
-- 7
SELECT min(n.name) AS of_person, min(t.title) AS biography_movie
FROM aka_name an, cast_info ci, info_type it, link_type lt, movie_link ml, name n, person_info pi, title t
WHERE an.name LIKE '%a%' AND it.info = 'mini biography' AND lt.link IN ('features', 'references', 'followed by')
  AND n.name_pcode_cf BETWEEN 'A' AND 'M' AND (n.gender = 'm' OR (n.gender = 'f' AND n.name LIKE 'B%'))
  AND pi.note = 'Volker Boehm' AND t.production_year BETWEEN 1980 AND 2012 AND n.id = an.person_id
  AND n.id = pi.person_id AND ci.person_id = n.id AND t.id = ci.movie_id AND ml.linked_movie_id = t.id
  AND lt.id = ml.link_type_id AND it.id = pi.info_type_id AND pi.person_id = an.person_id
  AND pi.person_id = ci.person_id AND an.person_id = ci.person_id AND ci.movie_id = ml.linked_movie_id;
-- 8
SELECT min(an.name) AS actress_pseudonym, min(t.title) AS japanese_movie_dubbed
FROM aka_name an, cast_info ci, company_name cn, movie_companies mc, name n, role_type rt, title t
WHERE ci.note = '(voice: English version)' AND cn.country_code = '[jp]' AND mc.note LIKE '%(Japan)%'
  AND mc.note NOT LIKE '%(USA)%' AND n.name LIKE '%o%' AND n.name NOT LIKE '%Yu%' AND rt.role = 'actress'
  AND an.person_id = n.id AND n.id = ci.person_id AND ci.movie_id = t.id AND t.id = mc.movie_id
  AND mc.company_id = cn.id AND ci.role_id = rt.id AND an.person_id = ci.person_id AND ci.movie_id = mc.movie_id;
-- 9
SELECT min(an.name) AS alternative_name, min(chn.name) AS character_name, min(t.title) AS movie
FROM aka_name an, char_name chn, cast_info ci, company_name cn, movie_companies mc, name n, role_type rt, title t
WHERE ci.note IN ('(voice)', '(voice: Japanese version)', '(voice) (uncredited)', '(voice: English version)')
  AND cn.country_code = '[us]' AND mc.note IS NOT NULL AND (mc.note LIKE '%(USA)%' OR mc.note LIKE '%(worldwide)%')
  AND n.gender = 'f' AND n.name LIKE '%An%' AND rt.role = 'actress' AND t.production_year BETWEEN 1995 AND 2015
  AND ci.movie_id = t.id AND t.id = mc.movie_id AND ci.movie_id = mc.movie_id AND mc.company_id = cn.id
  AND ci.role_id = rt.id AND n.id = ci.person_id AND chn.id = ci.person_role_id AND an.person_id = n.id
  AND an.person_id = ci.person_id;
-- 10
SELECT min(chn.name) AS uncredited_voiced_character, min(t.title) AS movie
FROM char_name chn, cast_info ci, company_name cn, company_type ct, movie_companies mc, role_type rt, title t
WHERE ci.note LIKE '%(uncredited)%' AND cn.country_code = '[us]' AND rt.role = 'actor' AND t.production_year > 2000
  AND t.id = mc.movie_id AND t.id = ci.movie_id AND ci.movie_id = mc.movie_id AND chn.id = ci.person_role_id
  AND rt.id = ci.role_id AND cn.id = mc.company_id AND ct.id = mc.company_type_id;
-- 11
SELECT min(cn.name) AS from_company, min(lt.link) AS movie_link_type, min(t.title) AS non_polish_sequel_movie
FROM company_name cn, company_type ct, keyword k, link_type lt, movie_companies mc, movie_keyword mk, movie_link ml,
  title t
WHERE cn.country_code <> '[pl]' AND (cn.name LIKE '%Film%' OR cn.name LIKE '%Warner%')
  AND ct.kind = 'production companies' AND k.keyword = 'sequel' AND lt.link LIKE '%follow%' AND mc.note IS NULL
  AND t.production_year BETWEEN 1950 AND 2014 AND lt.id = ml.link_type_id AND ml.movie_id = t.id
  AND t.id = mk.movie_id AND mk.keyword_id = k.id AND t.id = mc.movie_id AND mc.company_type_id = ct.id
  AND mc.company_id = cn.id AND ml.movie_id = mk.movie_id AND ml.movie_id = mc.movie_id AND mk.movie_id = mc.movie_id;
-- 12
SELECT min(cn.name) AS movie_company, min(mi_idx.info) AS rating, min(t.title) AS drama_horror_movie
FROM company_name cn, company_type ct, info_type it1, info_type it2, movie_companies mc, movie_info mi,
  movie_info_idx mi_idx, title t
WHERE cn.country_code = '[us]' AND ct.kind = 'production companies' AND it1.info = 'genres' AND it2.info = 'rating'
  AND mi.info IN ('Drama', 'Horror') AND mi_idx.info > '8.0' AND t.production_year BETWEEN 2000 AND 2014
  AND t.id = mi.movie_id AND t.id = mi_idx.movie_id AND mi.info_type_id = it1.id AND mi_idx.info_type_id = it2.id
  AND t.id = mc.movie_id AND ct.id = mc.company_type_id AND cn.id = mc.company_id AND mc.movie_id = mi.movie_id
  AND mc.movie_id = mi_idx.movie_id AND mi.movie_id = mi_idx.movie_id;
-- 13
SELECT min(mi.info) AS release_date, min(miidx.info) AS rating, min(t.title) AS german_movie
FROM company_name cn, company_type ct, info_type it, info_type it2, kind_type kt, movie_companies mc, movie_info mi,
  movie_info_idx miidx, title t
WHERE cn.country_code = '[de]' AND ct.kind = 'production companies' AND it.info = 'rating'
  AND it2.info = 'release dates' AND kt.kind = 'movie' AND mi.movie_id = t.id AND it2.id = mi.info_type_id
  AND kt.id = t.kind_id AND mc.movie_id = t.id AND cn.id = mc.company_id AND ct.id = mc.company_type_id
  AND miidx.movie_id = t.id AND it.id = miidx.info_type_id AND mi.movie_id = miidx.movie_id
  AND mi.movie_id = mc.movie_id AND miidx.movie_id = mc.movie_id;
-- 14
SELECT min(mi_idx.info) AS rating, min(t.title) AS northern_dark_movie
FROM info_type it1, info_type it2, keyword k, kind_type kt, movie_info mi, movie_info_idx mi_idx, movie_keyword mk,
  title t
WHERE it1.info = 'countries' AND it2.info = 'rating' AND k.keyword IN ('murder', 'blood', 'violence', 'gore')
  AND kt.kind = 'movie' AND mi.info IN ('Sweden', 'Norway', 'Germany', 'Denmark', 'USA') AND mi_idx.info < '8.5'
  AND t.production_year > 2005 AND kt.id = t.kind_id AND t.id = mi.movie_id AND t.id = mk.movie_id
  AND t.id = mi_idx.movie_id AND mk.movie_id = mi.movie_id AND mk.movie_id = mi_idx.movie_id
  AND mi.movie_id = mi_idx.movie_id AND k.id = mk.keyword_id AND it1.id = mi.info_type_id AND it2.id = mi_idx.info_type_id;
-- 15
SELECT min(mi.info) AS release_date, min(t.title) AS internet_movie
FROM aka_title at, company_name cn, company_type ct, info_type it1, keyword k, movie_companies mc, movie_info mi,
  movie_keyword mk, title t
WHERE cn.country_code = '[us]' AND it1.info = 'release dates' AND mi.note LIKE '%internet%' AND mi.info LIKE 'USA:% 200%'
  AND t.production_year > 2000 AND t.id = at.movie_id AND t.id = mi.movie_id AND t.id = mk.movie_id
  AND t.id = mc.movie_id AND mk.movie_id = mi.movie_id AND mk.movie_id = mc.movie_id AND mk.movie_id = at.movie_id
  AND mi.movie_id = mc.movie_id AND mi.movie_id = at.movie_id AND mc.movie_id = at.movie_id AND k.id = mk.keyword_id
  AND it1.id = mi.info_type_id AND cn.id = mc.company_id AND ct.id = mc.company_type_id;
-- 16
SELECT min(an.name) AS cool_actor_pseudonym, min(t.title) AS series_named_after_char
FROM aka_name an, cast_info ci, company_name cn, keyword k, movie_companies mc, movie_keyword mk, name n, title t
WHERE cn.country_code = '[us]' AND k.keyword = 'character-name-in-title' AND t.episode_nr >= 50 AND t.episode_nr < 200
  AND an.person_id = n.id AND n.id = ci.person_id AND ci.movie_id = t.id AND t.id = mk.movie_id
  AND mk.keyword_id = k.id AND t.id = mc.movie_id AND mc.company_id = cn.id AND an.person_id = ci.person_id
  AND ci.movie_id = mc.movie_id AND ci.movie_id = mk.movie_id AND mc.movie_id = mk.movie_id;
-- 17
SELECT min(n.name) AS member_in_charnamed_american_movie, min(n.name) AS a1
FROM cast_info ci, company_name cn, keyword k, movie_companies mc, movie_keyword mk, name n, title t
WHERE cn.country_code = '[us]' AND k.keyword = 'character-name-in-title' AND n.name LIKE 'B%' AND n.id = ci.person_id
  AND ci.movie_id = t.id AND t.id = mk.movie_id AND mk.keyword_id = k.id AND t.id = mc.movie_id
  AND mc.company_id = cn.id AND ci.movie_id = mc.movie_id AND ci.movie_id = mk.movie_id AND mc.movie_id = mk.movie_id;
-- 18
SELECT min(mi.info) AS movie_budget, min(mi_idx.info) AS movie_votes, min(t.title) AS movie_title
FROM cast_info ci, info_type it1, info_type it2, movie_info mi, movie_info_idx mi_idx, name n, title t
WHERE ci.note IN ('(producer)', '(executive producer)') AND it1.info = 'budget' AND it2.info = 'votes'
  AND n.gender = 'm' AND n.name LIKE '%Tim%' AND t.id = mi.movie_id AND t.id = mi_idx.movie_id AND t.id = ci.movie_id
  AND ci.movie_id = mi.movie_id AND ci.movie_id = mi_idx.movie_id AND mi.movie_id = mi_idx.movie_id
  AND n.id = ci.person_id AND it1.id = mi.info_type_id AND it2.id = mi_idx.info_type_id;
-- 19
SELECT min(n.name) AS voicing_actress, min(t.title) AS voiced_movie
FROM aka_name an, char_name chn, cast_info ci, company_name cn, info_type it, movie_companies mc, movie_info mi, name n,
  role_type rt, title t
WHERE ci.note IN ('(voice)', '(voice: Japanese version)', '(voice: English version)') AND cn.country_code = '[us]'
  AND it.info = 'release dates' AND mc.note IS NOT NULL AND (mc.note LIKE '%(USA)%' OR mc.note LIKE '%(worldwide)%')
  AND mi.info IS NOT NULL AND (mi.info LIKE 'Japan:%' OR mi.info LIKE 'USA:%') AND n.gender = 'f'
  AND n.name LIKE '%An%' AND rt.role = 'actress' AND t.production_year BETWEEN 1990 AND 2014 AND t.id = mi.movie_id
  AND t.id = mc.movie_id AND t.id = ci.movie_id AND mc.movie_id = ci.movie_id AND mc.movie_id = mi.movie_id
  AND mi.movie_id = ci.movie_id AND cn.id = mc.company_id AND it.id = mi.info_type_id AND n.id = ci.person_id
  AND rt.id = ci.role_id AND n.id = an.person_id AND ci.person_id = an.person_id AND chn.id = ci.person_role_id;
-- 20
SELECT min(t.title) AS complete_hero_movie
FROM complete_cast cc, comp_cast_type cct1, comp_cast_type cct2, char_name chn, cast_info ci, keyword k, kind_type kt,
  movie_keyword mk, name n, title t
WHERE cct1.kind = 'cast' AND cct2.kind LIKE '%complete%' AND chn.name NOT LIKE '%Sherlock%'
  AND (chn.name LIKE '%1%' OR chn.name LIKE '%Robert%')
  AND k.keyword IN ('superhero', 'sequel', 'second-part', 'marvel-cinematic-universe', 'fight', 'hero')
  AND kt.kind = 'movie' AND t.production_year > 1950 AND kt.id = t.kind_id AND t.id = mk.movie_id AND t.id = ci.movie_id
  AND t.id = cc.movie_id AND mk.movie_id = ci.movie_id AND mk.movie_id = cc.movie_id AND ci.movie_id = cc.movie_id
  AND chn.id = ci.person_role_id AND n.id = ci.person_id AND k.id = mk.keyword_id AND cct1.id = cc.subject_id
  AND cct2.id = cc.status_id;
-- 21
SELECT min(cn.name) AS company_name, min(lt.link) AS link_type, min(t.title) AS western_follow_up
FROM company_name cn, company_type ct, keyword k, link_type lt, movie_companies mc, movie_info mi, movie_keyword mk,
  movie_link ml, title t
WHERE cn.country_code <> '[pl]' AND (cn.name LIKE '%Film%' OR cn.name LIKE '%Warner%')
  AND ct.kind = 'production companies' AND k.keyword = 'sequel' AND lt.link LIKE '%follow%' AND mc.note IS NULL
  AND mi.info IN ('Sweden', 'Norway', 'Germany', 'Denmark', 'USA', 'English') AND t.production_year BETWEEN 1950 AND 2014
  AND lt.id = ml.link_type_id AND ml.movie_id = t.id AND t.id = mk.movie_id AND mk.keyword_id = k.id
  AND t.id = mc.movie_id AND mc.company_type_id = ct.id AND mc.company_id = cn.id AND mi.movie_id = t.id
  AND ml.movie_id = mk.movie_id AND ml.movie_id = mc.movie_id AND mk.movie_id = mc.movie_id AND ml.movie_id = mi.movie_id
  AND mk.movie_id = mi.movie_id AND mc.movie_id = mi.movie_id;
-- 22
SELECT min(cn.name) AS movie_company, min(mi_idx.info) AS rating, min(t.title) AS western_violent_movie
FROM company_name cn, company_type ct, info_type it1, info_type it2, keyword k, kind_type kt, movie_companies mc,
  movie_info mi, movie_info_idx mi_idx, movie_keyword mk, title t
WHERE cn.country_code <> '[us]' AND it1.info = 'countries' AND it2.info = 'rating'
  AND k.keyword IN ('murder', 'blood', 'violence', 'gore') AND kt.kind IN ('movie', 'episode')
  AND mc.note NOT LIKE '%(USA)%' AND mc.note LIKE '%(20%)%' AND mi.info IN ('Germany', 'Sweden', 'UK', 'USA')
  AND mi_idx.info < '8.5' AND t.production_year > 2000 AND kt.id = t.kind_id AND t.id = mi.movie_id
  AND t.id = mk.movie_id AND t.id = mi_idx.movie_id AND t.id = mc.movie_id AND mk.movie_id = mi.movie_id
  AND mk.movie_id = mi_idx.movie_id AND mk.movie_id = mc.movie_id AND mi.movie_id = mi_idx.movie_id
  AND mi.movie_id = mc.movie_id AND mc.movie_id = mi_idx.movie_id AND k.id = mk.keyword_id AND it1.id = mi.info_type_id
  AND it2.id = mi_idx.info_type_id AND ct.id = mc.company_type_id AND cn.id = mc.company_id;
-- 23
SELECT min(kt.kind) AS movie_kind, min(t.title) AS complete_us_internet_movie
FROM complete_cast cc, comp_cast_type cct1, company_name cn, company_type ct, info_type it1, keyword k, kind_type kt,
  movie_companies mc, movie_info mi, movie_keyword mk, title t
WHERE cct1.kind = 'complete+verified' AND cn.country_code = '[us]' AND it1.info = 'release dates'
  AND kt.kind IN ('movie', 'tv movie', 'video movie') AND mi.note LIKE '%internet%' AND mi.info IS NOT NULL
  AND (mi.info LIKE 'USA:% 199%' OR mi.info LIKE 'USA:% 200%') AND t.production_year > 1990 AND kt.id = t.kind_id
  AND t.id = mi.movie_id AND t.id = mk.movie_id AND t.id = mc.movie_id AND t.id = cc.movie_id
  AND mk.movie_id = mi.movie_id AND mk.movie_id = mc.movie_id AND mk.movie_id = cc.movie_id AND mi.movie_id = mc.movie_id
  AND mi.movie_id = cc.movie_id AND mc.movie_id = cc.movie_id AND k.id = mk.keyword_id AND it1.id = mi.info_type_id
  AND cn.id = mc.company_id AND ct.id = mc.company_type_id AND cct1.id = cc.status_id;
-- 24
SELECT min(chn.name) AS voiced_char_name, min(n.name) AS voicing_actress_name, min(t.title) AS voiced_action_movie
FROM aka_name an, char_name chn, cast_info ci, company_name cn, info_type it, keyword k, movie_companies mc,
  movie_info mi, movie_keyword mk, name n, role_type rt, title t
WHERE ci.note IN ('(voice)', '(voice: Japanese version)', '(voice: English version)') AND cn.country_code = '[us]'
  AND it.info = 'release dates' AND k.keyword IN ('hero', 'martial-arts', 'sequel', 'computer-animation')
  AND mi.info IS NOT NULL AND mi.info LIKE 'USA:%' AND n.gender = 'f' AND n.name LIKE '%n%' AND rt.role = 'actress'
  AND t.production_year > 1990 AND t.id = mi.movie_id AND t.id = mc.movie_id AND t.id = ci.movie_id
  AND t.id = mk.movie_id AND mc.movie_id = ci.movie_id AND mc.movie_id = mi.movie_id AND mc.movie_id = mk.movie_id
  AND mi.movie_id = ci.movie_id AND mi.movie_id = mk.movie_id AND ci.movie_id = mk.movie_id AND cn.id = mc.company_id
  AND it.id = mi.info_type_id AND n.id = ci.person_id AND rt.id = ci.role_id AND n.id = an.person_id
  AND ci.person_id = an.person_id AND chn.id = ci.person_role_id AND k.id = mk.keyword_id;
-- 25
SELECT min(mi.info) AS movie_budget, min(mi_idx.info) AS movie_votes, min(n.name) AS male_writer, min(t.title) AS title
FROM cast_info ci, info_type it1, info_type it2, keyword k, movie_info mi, movie_info_idx mi_idx, movie_keyword mk,
  name n, title t
WHERE ci.note IN ('(writer)', '(head writer)', '(story)', '(screenplay)') AND it1.info = 'genres' AND it2.info = 'votes'
  AND k.keyword IN ('murder', 'blood', 'gore', 'ghost', 'female-nudity') AND mi.info = 'Horror' AND n.gender = 'm'
  AND t.id = mi.movie_id AND t.id = mi_idx.movie_id AND t.id = ci.movie_id AND t.id = mk.movie_id
  AND ci.movie_id = mi.movie_id AND ci.movie_id = mi_idx.movie_id AND ci.movie_id = mk.movie_id
  AND mi.movie_id = mi_idx.movie_id AND mi.movie_id = mk.movie_id AND mi_idx.movie_id = mk.movie_id
  AND n.id = ci.person_id AND it1.id = mi.info_type_id AND it2.id = mi_idx.info_type_id AND k.id = mk.keyword_id;
-- 26
SELECT min(chn.name) AS character_name, min(mi_idx.info) AS rating, min(n.name) AS playing_actor, min(t.title) AS movie
FROM complete_cast cc, comp_cast_type cct1, comp_cast_type cct2, char_name chn, cast_info ci, info_type it2, keyword k,
  kind_type kt, movie_info_idx mi_idx, movie_keyword mk, name n, title t
WHERE cct1.kind = 'cast' AND cct2.kind LIKE '%complete%' AND chn.name IS NOT NULL
  AND (chn.name LIKE '%1%' OR chn.name LIKE '%Queen%') AND it2.info = 'rating'
  AND k.keyword IN ('superhero', 'marvel-cinematic-universe', 'fight', 'hero', 'sequel') AND kt.kind = 'movie'
  AND mi_idx.info > '4.0' AND t.production_year > 1990 AND kt.id = t.kind_id AND t.id = mk.movie_id
  AND t.id = ci.movie_id AND t.id = cc.movie_id AND t.id = mi_idx.movie_id AND mk.movie_id = ci.movie_id
  AND mk.movie_id = cc.movie_id AND mk.movie_id = mi_idx.movie_id AND ci.movie_id = cc.movie_id
  AND ci.movie_id = mi_idx.movie_id AND cc.movie_id = mi_idx.movie_id AND chn.id = ci.person_role_id
  AND n.id = ci.person_id AND k.id = mk.keyword_id AND cct1.id = cc.subject_id AND cct2.id = cc.status_id
  AND it2.id = mi_idx.info_type_id;
-- 27
SELECT min(cn.name) AS producing_company, min(lt.link) AS link_type, min(t.title) AS complete_western_sequel
FROM complete_cast cc, comp_cast_type cct1, comp_cast_type cct2, company_name cn, company_type ct, keyword k,
  link_type lt, movie_companies mc, movie_info mi, movie_keyword mk, movie_link ml, title t
WHERE cct1.kind IN ('cast', 'crew') AND cct2.kind LIKE 'complete%' AND cn.country_code <> '[pl]'
  AND (cn.name LIKE '%Film%' OR cn.name LIKE '%Warner%' OR cn.name LIKE '%Studios%')
  AND ct.kind = 'production companies' AND k.keyword = 'sequel' AND lt.link LIKE '%follow%' AND mc.note IS NULL
  AND mi.info IN ('Sweden', 'Germany', 'English', 'USA') AND t.production_year BETWEEN 1950 AND 2015
  AND lt.id = ml.link_type_id AND ml.movie_id = t.id AND t.id = mk.movie_id AND mk.keyword_id = k.id
  AND t.id = mc.movie_id AND mc.company_type_id = ct.id AND mc.company_id = cn.id AND mi.movie_id = t.id
  AND t.id = cc.movie_id AND cct1.id = cc.subject_id AND cct2.id = cc.status_id AND ml.movie_id = mk.movie_id
  AND ml.movie_id = mc.movie_id AND mk.movie_id = mc.movie_id AND ml.movie_id = mi.movie_id AND mk.movie_id = mi.movie_id
  AND mc.movie_id = mi.movie_id AND ml.movie_id = cc.movie_id AND mk.movie_id = cc.movie_id AND mc.movie_id = cc.movie_id
  AND mi.movie_id = cc.movie_id;
-- 28
SELECT min(cn.name) AS movie_company, min(mi_idx.info) AS rating, min(t.title) AS complete_euro_dark_movie
FROM complete_cast cc, comp_cast_type cct1, comp_cast_type cct2, company_name cn, company_type ct, info_type it1,
  info_type it2, keyword k, kind_type kt, movie_companies mc, movie_info mi, movie_info_idx mi_idx, movie_keyword mk,
  title t
WHERE cct1.kind = 'crew' AND cct2.kind <> 'complete+verified' AND cn.country_code <> '[us]' AND it1.info = 'countries'
  AND it2.info = 'rating' AND k.keyword IN ('murder', 'blood', 'violence', 'superhero', 'sequel')
  AND kt.kind IN ('movie', 'episode') AND mc.note NOT LIKE '%(VHS)%' AND mc.note LIKE '%(%)%'
  AND mi.info IN ('Sweden', 'Germany', 'UK', 'France', 'USA') AND mi_idx.info < '8.5' AND t.production_year > 1990
  AND kt.id = t.kind_id AND t.id = mi.movie_id AND t.id = mk.movie_id AND t.id = mi_idx.movie_id AND t.id = mc.movie_id
  AND t.id = cc.movie_id AND mk.movie_id = mi.movie_id AND mk.movie_id = mi_idx.movie_id AND mk.movie_id = mc.movie_id
  AND mk.movie_id = cc.movie_id AND mi.movie_id = mi_idx.movie_id AND mi.movie_id = mc.movie_id
  AND mi.movie_id = cc.movie_id AND mc.movie_id = mi_idx.movie_id AND mc.movie_id = cc.movie_id
  AND mi_idx.movie_id = cc.movie_id AND k.id = mk.keyword_id AND it1.id = mi.info_type_id AND it2.id = mi_idx.info_type_id
  AND ct.id = mc.company_type_id AND cn.id = mc.company_id AND cct1.id = cc.subject_id AND cct2.id = cc.status_id;
-- 29
SELECT min(chn.name) AS voiced_char, min(n.name) AS voicing_actress, min(t.title) AS voiced_animation
FROM aka_name an, complete_cast cc, comp_cast_type cct1, comp_cast_type cct2, char_name chn, cast_info ci,
  company_name cn, info_type it, info_type it3, keyword k, movie_companies mc, movie_info mi, movie_keyword mk, name n,
  person_info pi, role_type rt, title t
WHERE cct1.kind = 'cast' AND cct2.kind LIKE 'complete%'
  AND ci.note IN ('(voice)', '(voice: Japanese version)', '(voice: English version)', '(uncredited)')
  AND cn.country_code = '[us]' AND it.info = 'release dates' AND it3.info IN ('trivia', 'height', 'birth date')
  AND k.keyword IN ('computer-animation', 'hero', 'sequel', 'superhero', 'character-name-in-title')
  AND mi.info LIKE 'USA:%' AND n.gender = 'f' AND n.name LIKE '%n%' AND rt.role = 'actress'
  AND t.production_year BETWEEN 1980 AND 2015 AND t.id = mi.movie_id AND t.id = mc.movie_id AND t.id = ci.movie_id
  AND t.id = mk.movie_id AND t.id = cc.movie_id AND mc.movie_id = ci.movie_id AND mc.movie_id = mi.movie_id
  AND mc.movie_id = mk.movie_id AND mc.movie_id = cc.movie_id AND mi.movie_id = ci.movie_id AND mi.movie_id = mk.movie_id
  AND mi.movie_id = cc.movie_id AND ci.movie_id = mk.movie_id AND ci.movie_id = cc.movie_id AND mk.movie_id = cc.movie_id
  AND cn.id = mc.company_id AND it.id = mi.info_type_id AND n.id = ci.person_id AND rt.id = ci.role_id
  AND n.id = an.person_id AND ci.person_id = an.person_id AND chn.id = ci.person_role_id AND n.id = pi.person_id
  AND ci.person_id = pi.person_id AND it3.id = pi.info_type_id AND k.id = mk.keyword_id AND cct1.id = cc.subject_id
  AND cct2.id = cc.status_id;
-- 30
SELECT min(mi.info) AS movie_genre, min(mi_idx.info) AS votes, min(n.name) AS writer, min(t.title) AS complete_movie
FROM complete_cast cc, comp_cast_type cct1, comp_cast_type cct2, cast_info ci, info_type it1, info_type it2, keyword k,
  movie_info mi, movie_info_idx mi_idx, movie_keyword mk, name n, title t
WHERE cct1.kind IN ('cast', 'crew') AND cct2.kind = 'complete+verified'
  AND ci.note IN ('(writer)', '(head writer)', '(story)', '(screenplay)') AND it1.info = 'genres' AND it2.info = 'votes'
  AND k.keyword IN ('murder', 'violence', 'blood', 'gore', 'revenge') AND mi.info IN ('Horror', 'Thriller', 'Action')
  AND n.gender = 'm' AND t.production_year > 1980 AND t.id = mi.movie_id AND t.id = mi_idx.movie_id
  AND t.id = ci.movie_id AND t.id = mk.movie_id AND t.id = cc.movie_id AND ci.movie_id = mi.movie_id
  AND ci.movie_id = mi_idx.movie_id AND ci.movie_id = mk.movie_id AND ci.movie_id = cc.movie_id
  AND mi.movie_id = mi_idx.movie_id AND mi.movie_id = mk.movie_id AND mi.movie_id = cc.movie_id
  AND mi_idx.movie_id = mk.movie_id AND mi_idx.movie_id = cc.movie_id AND mk.movie_id = cc.movie_id
  AND n.id = ci.person_id AND it1.id = mi.info_type_id AND it2.id = mi_idx.info_type_id AND k.id = mk.keyword_id
  AND cct1.id = cc.subject_id AND cct2.id = cc.status_id;
-- 31
SELECT min(mi.info) AS movie_genre, min(mi_idx.info) AS votes, min(n.name) AS writer, min(t.title) AS violent_movie
FROM cast_info ci, company_name cn, info_type it1, info_type it2, keyword k, movie_companies mc, movie_info mi,
  movie_info_idx mi_idx, movie_keyword mk, name n, title t
WHERE ci.note IN ('(writer)', '(head writer)', '(story)', '(screenplay)') AND cn.name LIKE '%Lionsgate%'
  AND it1.info = 'genres' AND it2.info = 'votes' AND k.keyword IN ('murder', 'violence', 'blood', 'gore', 'sequel')
  AND mi.info IN ('Horror', 'Thriller', 'Action', 'Drama') AND n.gender = 'm' AND t.id = mi.movie_id
  AND t.id = mi_idx.movie_id AND t.id = ci.movie_id AND t.id = mk.movie_id AND t.id = mc.movie_id
  AND ci.movie_id = mi.movie_id AND ci.movie_id = mi_idx.movie_id AND ci.movie_id = mk.movie_id
  AND ci.movie_id = mc.movie_id AND mi.movie_id = mi_idx.movie_id AND mi.movie_id = mk.movie_id
  AND mi.movie_id = mc.movie_id AND mi_idx.movie_id = mk.movie_id AND mi_idx.movie_id = mc.movie_id
  AND mk.movie_id = mc.movie_id AND n.id = ci.person_id AND it1.id = mi.info_type_id AND it2.id = mi_idx.info_type_id
  AND k.id = mk.keyword_id AND cn.id = mc.company_id;
-- 32
SELECT min(lt.link) AS link_type, min(t1.title) AS first_movie, min(t2.title) AS second_movie
FROM keyword k, link_type lt, movie_keyword mk, movie_link ml, title t1, title t2
WHERE k.keyword = 'character-name-in-title' AND mk.keyword_id = k.id AND t1.id = mk.movie_id AND ml.movie_id = t1.id
  AND ml.linked_movie_id = t2.id AND lt.id = ml.link_type_id AND mk.movie_id = t1.id;
-- 33
SELECT min(cn1.name) AS first_company, min(cn2.name) AS second_company, min(mi_idx1.info) AS first_rating,
  min(mi_idx2.info) AS second_rating, min(t1.title) AS first_movie, min(t2.title) AS second_movie
FROM company_name cn1, company_name cn2, info_type it1, info_type it2, kind_type kt1, kind_type kt2, link_type lt,
  movie_companies mc1, movie_companies mc2, movie_info_idx mi_idx1, movie_info_idx mi_idx2, movie_link ml, title t1,
  title t2
WHERE cn1.country_code = '[us]' AND it1.info = 'rating' AND it2.info = 'rating' AND kt1.kind IN ('movie', 'tv series')
  AND kt2.kind IN ('movie', 'episode', 'tv series') AND lt.link IN ('sequel', 'follows', 'followed by', 'remake of')
  AND mi_idx2.info < '9.0' AND t2.production_year BETWEEN 1990 AND 2015 AND lt.id = ml.link_type_id
  AND t1.id = ml.movie_id AND t2.id = ml.linked_movie_id AND it1.id = mi_idx1.info_type_id AND t1.id = mi_idx1.movie_id
  AND kt1.id = t1.kind_id AND cn1.id = mc1.company_id AND t1.id = mc1.movie_id AND ml.movie_id = mi_idx1.movie_id
  AND ml.movie_id = mc1.movie_id AND mi_idx1.movie_id = mc1.movie_id AND it2.id = mi_idx2.info_type_id
  AND t2.id = mi_idx2.movie_id AND kt2.id = t2.kind_id AND cn2.id = mc2.company_id AND t2.id = mc2.movie_id
  AND ml.linked_movie_id = mi_idx2.movie_id AND ml.linked_movie_id = mc2.movie_id AND mi_idx2.movie_id = mc2.movie_id;
