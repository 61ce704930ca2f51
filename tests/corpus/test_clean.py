"""Cleaning takes markup and boilerplate away, and leaves sentences as they are."""

import pytest
from cpu_limit import cpu_limit
from hypothesis import given
from hypothesis import strategies as st

from elmokit.corpus.clean import clean_line

KEPT = [
    "Go!",
    "No.",
    "ㅋㅋㅋ 재밌다",
    "a < b and c > d",
    "I <3 you",
    "So cute >_<",
    "영화 <기생충>을 봤다",
    "<배>",
    "<Her> was good, <Big> too",
    "Type <address> here",
    "<S> and <UNK> are words",
    "AT&T and R&D; x &c.",
    "x <b and c> y",
    "최고!!!!!!!!!!!!!!!!!!",
    "굳.!.!.!.!.!",
    "1980년 5월 18일",
    "3 > 2 > 1 최고의 순서",
    "전함·원자력·잠수함의 승무원",
    "인문 · 사회 · 문화 · 예술과 관련지어 바라본다.",
    "Write to kim@example.com today",
    "출처: http://example.com",
    "모두(http://www.modoo.at)에서는 홈페이지를 찾을 때 @을 붙여 검색한다.",
    "`` I see , '' he said , '' and left .",
    "it's 'fine' l''épée",
    "x = y and y = x",
    "=> this is it =",
    "The song was released in 2001, all rights to it were sold.",
    "He paid 3, 4 and 5 dollars in 1999.",
    "if (a[i][j] > 0) { return b[[0]; }",
    "हिन्दी में एक वाक्य।",
    "สวัสดีครับ",
]


@pytest.mark.parametrize("line", KEPT)
def test_text_is_kept_as_it_is(line: str) -> None:
    assert clean_line(line) == (line, "kept")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("The <b>cat</b> sat<br/>down.", "The cat sat down."),
        ('<p class="x">One</p> <A HREF="y">two</A>', "One two"),
        ("<title>Big</title> words", "Big words"),
        ('<doc id="1" title="x">A text', "A text"),
        ("a<!-- no --> b", "a b"),
        ("Tom &amp; Mary&nbsp;say &quot;hi&quot; &#8211; &#x2013;", 'Tom & Mary say "hi" – –'),
        ("&amp;quot;Yes&amp;quot;", '"Yes"'),
        ("x &lt; y, &lt;br&gt; z", "x < y, z"),
        ("A [[cat (animal)|cat]] and [[dogs]].", "A cat and dogs."),
        ("[[파일:a.jpg|섬네일|[[서울]]의 밤]] 서울은 [[수도]]이다.", "서울은 수도이다."),
        ("See [http://example.com the page].", "See the page."),
        ("{{lang|en|{{x}}}}He {{tpl}}ran.", "He ran."),
        ('Fact.<ref name="a">Smith <i>1990</i></ref> More.<ref name="b" />', "Fact. More."),
        ("so <math>x < y^2</math> holds", "so holds"),
        ("'''Bold''' and ''slanted'' and '''''both'''''", "Bold and slanted and both"),
    ],
)
def test_markup_is_removed(line: str, text: str) -> None:
    assert clean_line(line) == (text, "changed")


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("= Anarchism =", "markup"),
        ("== See also ==", "markup"),
        ("===역사===", "markup"),
        ("{{Infobox|x=1}}", "markup"),
        ("[[Category:Cats]]", "markup"),
        ('<doc id="12" url="x">', "markup"),
        ("</doc>", "markup"),
        ('{| class="wikitable"', "markup"),
        ("|-", "markup"),
        ("| cell || cell", "markup"),
        ("* * * * *", "boilerplate"),
        ("------", "boilerplate"),
        ("2015.07.15", "boilerplate"),
        ("6 = 1 + 2 + 3", "boilerplate"),
        ("Seoul 9,776 605.2 16,154 25 424", "boilerplate"),
        ("http://example.com/a?b=c", "boilerplate"),
        ("www.example.com, kim@example.co.kr", "boilerplate"),
        ("Home | News | Contact us", "boilerplate"),
        ("홈 > 뉴스 > 사회", "boilerplate"),
        ("About · Help · Terms · Privacy", "boilerplate"),
        ("Copyright (c) 2019 Example Inc. All rights reserved.", "boilerplate"),
        ("ⓒ 한국일보, 무단 전재 및 재배포 금지", "boilerplate"),
    ],
)
def test_what_is_no_text_is_dropped(line: str, verdict: str) -> None:
    assert clean_line(line) == ("", verdict)


@given(st.text(max_size=80))
def test_a_second_cleaning_finds_nothing_in_plain_text(line: str) -> None:
    text, verdict = clean_line(line)
    if verdict == "kept":
        assert text == line.strip() and clean_line(text) == (text, "kept")


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a ",
        "<ref>",
        "<a b=",
        "{{",
        "[[",
        "''",
        "[http://a ",
        "<!--",
        "&a",
        " | a",
        "= ",
        "''a",
    ],
)
def test_time_is_linear_in_the_length_of_odd_lines(piece: str) -> None:
    with cpu_limit():
        clean_line(piece * (300_000 // len(piece)))
