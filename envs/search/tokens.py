"""Lucene's standard tokenizer: the word breaks of Unicode's annex 29 and emoji, in the Unicode version that it uses."""

from __future__ import annotations

import regex

LONGEST = 255
"""A longer run of letters is cut here, and goes on as the next token."""

# Unicode 9 and emoji 11, as in the tokenizer, where today's tables differ: emoji modifiers were not yet extenders,
# signs (general category Sk and punctuation) not yet letters, and many pictures counted that were dropped later.
_AFTER = r"[[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]--[\U0001F3FB-\U0001F3FF]]*"
_AFTER_PICTURE = r"[[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]--[\uFE0E\uFE0F\U0001F3FB-\U0001F3FF]]*"
_PICTURE = (
    r"[\p{Extended_Pictographic}\u2388\u2605\u2607-\u2612\u2616-\u2685\u2690-\u2704\u270E-\u2711\u2765-\u2767"
    r"\U0001F000-\U0001F0F5\U0001F10D-\U0001F10F\U0001F12F\U0001F16C-\U0001F16F\U0001F1AD\U0001F1AE"
    r"\U0001F260-\U0001F3F6\U0001F4FE\U0001F546-\U0001F5F9\U0001F6C6-\U0001F6F2\U0001F774-\U0001F77F"
    r"\U0001F7D5-\U0001F7FF\U0001F8B0-\U0001F8D8\U0001FA00-\U0001FA6D]"
)
_LETTER = rf"(?:[[\p{{WB=ALetter}}&&[\p{{Alphabetic}}\u05F3]]\p{{WB=Hebrew_Letter}}]{_AFTER})"
_HEBREW = rf"(?:\p{{WB=Hebrew_Letter}}{_AFTER})"
_DIGIT = rf"(?:[\p{{WB=Numeric}}\uFF10-\uFF19]{_AFTER})"
_KATAKANA = rf"(?:\p{{WB=Katakana}}{_AFTER})"
_JOINER = rf"(?:\p{{WB=ExtendNumLet}}{_AFTER})"
_IN_WORD = rf"(?:[:\uFE13\uFE55\uFF1A\p{{WB=MidLetter}}\p{{WB=MidNumLet}}']{_AFTER})"
_IN_NUMBER = rf"(?:[\p{{WB=MidNum}}\p{{WB=MidNumLet}}']{_AFTER})"
_RUN = (
    rf"(?:{_KATAKANA}+|(?:{_HEBREW}(?:'{_AFTER}|\"{_AFTER}{_HEBREW})"
    rf"|{_DIGIT}(?:{_IN_NUMBER}?{_DIGIT})*|{_LETTER}(?:{_IN_WORD}?{_LETTER})*)+)"
)
_WORD = rf"{_JOINER}*{_RUN}(?:{_JOINER}+{_RUN})*{_JOINER}*"
_TONE = rf"[\U0001F3FB-\U0001F3FF]{_AFTER_PICTURE}"
_EMOJI = (
    rf"(?:\u200D*\p{{Emoji_Modifier_Base}}{_AFTER_PICTURE}{_TONE}|\u200D*{_PICTURE}{_AFTER_PICTURE}\uFE0F?|{_TONE})"
)
_TOKEN = regex.compile(
    rf"[0-9#*]{_AFTER_PICTURE}\uFE0F?\u20E3{_AFTER_PICTURE}"
    rf"|{_WORD}"
    rf"|{_EMOJI}(?:[\U000E0020-\U000E007E]+\U000E007F|(?:(?:\u200D|(?<=\u200D)){_EMOJI})*)"
    rf"|(?:\p{{WB=Regional_Indicator}}{_AFTER}){{2}}"
    rf"|(?:\p{{LB=SA}}{_AFTER})+"
    rf"|\p{{Script=Han}}{_AFTER}|\p{{Script=Hiragana}}{_AFTER}",
    regex.VERSION1,
)
_ASCII = regex.compile(
    r"_*(?:[0-9]+(?:[,;.'][0-9]+)*|[A-Za-z]+(?:[:.'][A-Za-z]+)*)+"
    r"(?:_+(?:[0-9]+(?:[,;.'][0-9]+)*|[A-Za-z]+(?:[:.'][A-Za-z]+)*)+)*_*"
)


_BEYOND_ASCII = regex.compile(r"[^ \t\n\r]*[^\x00-\x7F][^ \t\n\r]*")


def tokens(text: str) -> list[str]:
    """Return the tokens of a text in order, as written.

    Example:
        >>> tokens("John's x-large, 1,000.50 v2.0 foo_bar 中文 ★")
        ["John's", 'x', 'large', '1,000.50', 'v2.0', 'foo_bar', '中', '文', '★']
    """
    if text.isascii():
        return _found(_ASCII, text)
    words, at = [], 0
    for odd in _BEYOND_ASCII.finditer(text):  # no token holds a space, and most words are plain
        words += _found(_ASCII, text[at : odd.start()])
        words += _found(_TOKEN, odd.group())
        at = odd.end()
    return words + _found(_ASCII, text[at:])


def _found(pattern: regex.Pattern[str], text: str) -> list[str]:
    words = pattern.findall(text)
    if not words or max(map(len, words)) <= LONGEST:
        return words
    words, at = [], 0
    while (found := pattern.search(text, at)) is not None:
        if found.end() - found.start() > LONGEST:
            found = pattern.match(text, found.start(), found.start() + LONGEST)
            assert found is not None
        words.append(found.group())
        at = found.end()
    return words
