"""Read the option that a written reply commits to (METHODS 1.2); None is unreadable.

The default, `final_statement`, makes a reply plain, puts one mark in place of every option that it
names, collects what the clauses claim of options, and decides by the claims. A wrong letter is
worse than none, so what is not clearly a claim counts as nothing. Every repeat in a pattern is
bounded, because replies may be hostile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeAlias
from unicodedata import normalize

from medstress.core.items import LETTERS

Parser = Callable[[str, Sequence[str]], str | None]
"""(reply without thoughts, texts of the options) -> the letter of one of them."""
Marks: TypeAlias = tuple[str, str] | None
"""Opening and closing mark of a model's thoughts, on top of the usual ones."""
DEFAULT = "final_statement"
LONGEST_READ = 20_000
"""Most characters of a reply that are read: half from its start, half from its end."""


# Thoughts, and a next question.

_ENDED = r"(?:end|over|stop|close|done)"
_NAMES = ("think", "thought", "reason", "reflect", "scratch", "analysis", "monologue")
_OTHERS = ("unused9", "inner_", "im_start", "channel", "final response")
_THOUGHT = (
    rf"[a-z_:]{{0,20}}(?:{'|'.join(_NAMES)})"
    rf"(?:(?!_{_ENDED}\b)[a-z_]){{0,20}}"
)
_ATTRIBUTES = r"(?:\s[\w:-]{1,20}=[^<>\n]{0,80}(?<!/))?"
_OPENED = re.compile(
    rf"[<\[◁#](?i:\|?(?!end_){_THOUGHT}{_ATTRIBUTES}\|?[>\]▷](?!\s?:)|unused94>|\|inner_prefix\|>|\|im_start\|>think"
    r"|\|?channel\|?>\s{0,5}(?:analysis|commentary|thought)|#{0,5} {1,3}Thinking\b)"
)
_CLOSED = re.compile(
    rf"[<\[◁#](?i:\|?(?:(?:/|end_(?:of_)?){_THOUGHT}|{_THOUGHT}_{_ENDED})\|?[>\]▷]{{1,2}}|unused95>"
    r"|\|inner_suffix\|>|\|im_start\|>answer|\|?channel\|?>\s{0,5}final\s{0,5}(?:<\|message\|>)?"
    r"|channel\|>|#{0,5} {1,3}Final Response\b[* :]{0,5})"
)
"""The usual marks: pairs whose name speaks of thinking, and those of known models."""
_PHRASES = (
    ("Here is my thought process:", "Here is my response:"),
    ("analysis", "assistantfinal"),  # channels whose marks were left out
)
_NEXT = re.compile(
    r"^[^\w\"'{]{0,8}(?:next )?(?:context|question|q|user|human)\b"
    r"[^\w\n\"']{0,5}\d{0,4}[^\w\n\"']{0,5}?[:\n]|\[INST\]",
    re.IGNORECASE | re.MULTILINE,
)


def without_thoughts(text: str, own: Marks = None) -> str:
    """Return what is said after the last closing mark; nothing while a thought is open.

    Args:
        text: as the model wrote it.
        own: marks of this model, on top of the usual ones.

    >>> without_thoughts("<think>A or B?</think> It is B."), without_thoughts("[THINK]It may be A")
    ('It is B.', '')
    >>> without_thoughts("%% A? %% It is B.", ("%%", "%% "))
    'It is B.'
    """
    lowered = text.lower()
    if own is None and not any(name in lowered for name in (*_NAMES, *_OTHERS)):
        return text  # quickly, as replies may be long
    pairs = [pair for pair in _PHRASES if text.startswith(pair[0]) and pair[1] in text]
    pairs += [own] if own is not None else []
    ends = [match.end() for match in _CLOSED.finditer(text)]
    ends += [place + len(close) for _, close in pairs if (place := text.rfind(close)) >= 0]
    rest = text[max(ends, default=0) :]
    if _OPENED.search(rest) or (own is not None and own[0] in rest):
        return ""
    return rest.strip() if ends else rest


_TAG = r"(?:(?:final|correct|best)[_ ]?)?(?:answer|choice|option|letter)"
_MARK = re.compile(
    r"(?P<left>[<\[◁{]{1,2}\|?)(?P<slash>/?)"
    r"(?!(?:p|ul|ol|li|h\d|div|table|tr|td|th|br|b|i|u|em|strong|code|sup|sub|span)\b)"
    r"(?P<name>[A-Za-z][\w:-]{0,30})(?P<right>\|?[>\]▷}]{1,2})"
)
_SIDE = re.compile(rf"(?:^|[_:-])(?:begin|start|open|(?P<end>{_ENDED}))(?:_of)?(?=$|[_:-])", re.I)
"""What tells an opening from a closing mark within their names."""
_SURE = re.compile(r"[<\[◁]/\w+[>\]▷]|<\|END_\w+\|>", re.I)
"""Closing marks of known models."""


def unknown_marks(text: str, own: Marks = None) -> tuple[str, str] | None:
    """Return a pair of marks around a part of a reply that may be an unknown kind of thought.

    A pair that holds the end of the reply, or an answer, is none, nor are marks of known models.

    >>> unknown_marks("<notes>A? B?</notes> It is B."), unknown_marks("<answer>B</answer> I hope.")
    (('<notes>', '</notes>'), None)
    >>> unknown_marks("<thinking_start>A?<thinking_end> It is B.")
    ('<thinking_start>', '<thinking_end>')
    """
    marks = list(islice(_MARK.finditer(text), 40))
    stems = [_SIDE.sub("", mark["name"]).strip("_:-").lower() for mark in marks]
    closes = [
        bool(mark["slash"]) or any(side["end"] for side in _SIDE.finditer(mark["name"]))
        for mark in marks
    ]
    for i, first in enumerate(marks):
        shape = (first["left"], first["right"], stems[i])
        if closes[i] or re.fullmatch(rf"{_TAG}|response|output|solution", stems[i]):
            continue
        for last, stem, is_close in zip(
            marks[i + 1 :], stems[i + 1 :], closes[i + 1 :], strict=True
        ):
            if is_close and (last["left"], last["right"], stem) == shape:
                is_sure = _CLOSED.fullmatch(last[0]) and _SURE.fullmatch(last[0])
                goes_on = re.search(r"\w", _MARK.sub("", text[last.end() :]))
                if goes_on and not is_sure and (first[0], last[0]) != own:
                    return first[0], last[0]
                break
    return None


def next_question(text: str) -> int | None:
    """Return where a next question begins that the model goes on to write; None if nowhere.

    >>> "It is B.\\n[Question]: Which drug?"[: next_question("It is B.\\n[Question]: Which drug?")]
    'It is B.\\n'
    """
    for match in _NEXT.finditer(text):
        if re.search(r"\w", _NEXT.sub("", text[max(0, match.start() - 1000) : match.start()])):
            return match.start()
    return None


def is_over(text: str, own: Marks = None) -> bool:
    """Return whether a reply has gone on to a next question, so that no more of it is read."""
    return "\n" in text and next_question(without_thoughts(text, own)) is not None


# A plain text in which each option that is named is one character.

_REWRITES = [
    (re.compile(pattern, re.IGNORECASE | re.MULTILINE), new)
    for pattern, new in (
        # What ends a reply.
        (
            r"(?<=[\w.)*}>\s])(?:<\|?(?:im_end|eot_id|end|endoftext|user|return|end_of_turn)\|?>|</s>)",
            "\0",
        ),
        # What holds an answer.
        (r"\\f?boxed\s{0,3}\{|<\|begin_of_box\|>|^#{4}(?= )", "\nfinal answer: "),
        (rf"[<\[]{_TAG}[>\]](?!\s?:)", "\nfinal answer: "),
        (r"\b(?:ans\b\.?:?|answer\?)", "answer: "),
        # Keys of JSON begin lines, as do tags and cells of tables.
        (r"[,{]\s{0,20}[\"'](?=[\w ]{1,30}[\"']\s{0,5}:)|\\n(?![a-z])", "\n"),
        (r"\\(?:text|math)\w{0,4}\s{0,3}\{|</?(?:b|i|u|em|strong|mark|span|code|sup)>", ""),
        (r"</?\|?(?:p|[a-z][a-z_0-9]{1,29})(?:\s[^<>\n]{0,80})?/?\|?>|\[/[a-z_]{3,20}\]", "\n"),
        (r"^\s{0,9}\||\|\s{0,9}$", ""),
        (r"\|", " : "),
        # Marks of layout.
        (r"(?<=\w)_(?=\w)|[{}]", " "),
        (r"’", "'"),
        (r"[*_`$#\"“”«»„「」\\~]|(?<!\w)'|'(?!\w)", ""),
        (r"\[([^\W\d_][\w ]{1,30})\]", r"\1"),
        (r"<([A-J])>|[\[【]([A-J])[\]】]", r"(\1\2)"),
        (r"[✅✔✓☑]\ufe0f?|^\W{0,3}[\[(]x[\])] ", " ✓ "),
        (r"[❌✗✘✖]\ufe0f?", " ✗ "),
        (
            r"^(?:[\s•·‣◦▪●☞👉➤→>–—-]{1,9}(?=[\s(\w✓✗])|\d{1,2}[.)]\s(?=\W{0,3}[A-J]\b)"
            r"|(?:assistant|ai|model|bot)\s?:){1,4}",
            "",
        ),
        # What only sounds like a condition.
        (
            r"(\b(?:all|every|each|any)\w{0,5}(?: (?:of|the|them|these|those|one|other|options?"
            r"|choices?|answers?|above)){0,3}) but\b",
            r"\1 except",
        ),
        (r"\bif (?:i|we) (?:had|have|must|were forced|really)\b[^,.\n]{0,40},?", ""),
    )
]
_SMALL = re.compile(
    r"(?<=\()[a-j](?=\))|^[a-j](?=[.):]?$|\)|: )|(?:(?<=option )|(?<=choice )|(?<=answer )"
    r"|(?<=answer: )|(?<=answer is )|(?<=should be ))[a-j](?=\)?(?:[.,;:!?]|$))",
    re.MULTILINE | re.IGNORECASE,
)
_TEXT, _BOTH, _CLASH = 0xE000, 0xE100, "\ue200"
"""Private characters: an option's text, its letter and text, a letter with another one's text."""
_T, _B = "\ue000-\ue009", "\ue100-\ue109"
_IN_WORD = "A-Za-z0-9\u00c0-\u024f"
_LETTER = rf"(?<![{_IN_WORD}'.-])(?:[A-HJ]|I(?! [a-z]))(?![{_IN_WORD}'+]|[-.][{_IN_WORD}])"
_LETTERED = re.compile(
    rf"(?<![{_IN_WORD}'.-])\(?(?P<letter>[A-Ja-j])(?P<between>\)? ?[.:)=–—-]{{1,2}} ?| ?\(|\)? "
    rf"|,? (?i:which is|i\.e\.,?) |, )\(?(?P<text>[{_T}])\)?"
)
_TEXT_FIRST = re.compile(
    rf"(?P<text>[{_T}])(?P<between> ?\(| ?[–—-] |, | )(?:(?:option|choice|answer|letter) )?"
    rf"(?P<letter>[A-J])(?![{_IN_WORD}']|(?<=I) [a-z])\)?",
    re.IGNORECASE,
)
_NAMED_ON = re.compile(r" (?:[A-HJ-Z]|[IVX]{1,4})(?![\w'.:)-])")
"""A letter or numeral after a text that makes it another name: "Hepatitis A" for "Hepatitis"."""


def _plain(text: str) -> str:
    """Return the lines that are not empty, without markup, up to a next question."""
    text = normalize("NFKC", text)
    for pattern, new in _REWRITES:
        text = pattern.sub(new, text)
    text = next((part for part in text.split("\0") if part.strip()), "")
    lines = [
        line
        for line in (" ".join(line.split()) for line in text.splitlines())
        if line.strip(" .:;,()-=")
    ]
    return _SMALL.sub(lambda match: match[0].upper(), "\n".join(lines))


@lru_cache(maxsize=4096)
def _plain_option(option: str) -> str:
    return " ".join(_plain(option).split()).strip(" .;,").lower()


def _marked(text: str, options: Sequence[str]) -> str:
    """Return a plain text with one character for each option that it names.

    Without patterns made of options, which would be compiled again for every edited question.
    """
    for place in sorted(range(len(options)), key=lambda place: -len(options[place])):
        wanted, lower = _plain_option(options[place]), text.lower()
        if not wanted or wanted.upper() in LETTERS or len(lower) != len(text):
            continue
        parts, begin, at = [], 0, lower.find(wanted)
        while at >= 0:
            end = at + len(wanted)
            if _is_whole(text, at, end, LETTERS[place]):
                parts += [text[begin:at], chr(_TEXT + place)]
                begin = end
            at = lower.find(wanted, end)
        text = "".join([*parts, text[begin:]])

    def fused(match: re.Match[str]) -> str:
        if (place := ord(match["text"]) - _TEXT) == LETTERS.index(match["letter"].upper()):
            return chr(_BOTH + place)
        apart = (", ", " ") if match.re is _LETTERED else (", ",)  # "A warfarin", "Hepatitis A"
        return match[0] if match["between"] in apart or match["letter"].islower() else _CLASH

    text = _TEXT_FIRST.sub(fused, _LETTERED.sub(fused, text))
    return _TICKED.sub(r"\2 \1", text)


def _is_whole(text: str, begin: int, end: int, letter: str) -> bool:
    """Return whether an option's text is named, and not a part of another name or number."""
    if re.match(r"[\w-]", text[max(0, begin - 1) : begin]) or re.match(
        r"\w|[-./:+]\w|\+", text[end : end + 2]
    ):
        return False
    if end - begin == 1:
        line = text[text.rfind("\n", 0, begin) + 1 : begin]
        return bool(re.search(r"(?:^|\bis |: ?)$", line[-4:] if line else "")) and bool(
            re.match(r"[.!)]*(?:\n|$|,? (?:because|since|as)\b)", text[end : end + 12])
        )
    longer = _NAMED_ON.match(text[end : end + 8])
    return longer is None or longer[0].strip() == letter


# What a reply claims.

_TICKED = re.compile(rf"^([✓✗]) ?(\(?(?:{_LETTER}|[{_T}{_B}{_CLASH}])\)?)", re.MULTILINE)
_TOKEN = rf"(?:{_LETTER}|[{_T}{_B}{_CLASH}])"
_NOUN = (
    r"(?:options?|choices?|letters?|answers?|opción|opção|opzione|letra|lettre|lettera|alternativa"
    r"|buchstabe|antwort)"
)
_ONE = rf"(?:(?i:(?:the )?{_NOUN} ?:? ?))?\(?{_TOKEN}[)']?"
_AND = r" ?(?i:, ?(?:and|or)\b|,|/|&|\+|\b(?:and|or|nor|to|vs\.?|versus)\b) ?"
_GROUP = rf"(?P<group>(?>{_ONE}(?:{_AND}{_ONE}(?! (?:is|was|has|does|would|can)\b)){{0,9}}))"
_IS = (
    r"(?:is|was|are|lautet|ist|es|est|é|è|(?:would|must|should|will|has to|seems to|appears to) be"
    r"|should have been|remains|=|:|→|👉|➡|–|—|-)"
)
_ANSWER = (
    r"(?:answer|response|(?<!of )choice|option|pick|vote|selection|verdict|conclusion|decision"
    r"|correction|guess|prediction|letter|respuesta|resposta|réponse|antwort|antwoord|risposta|opción|opção"
    r"|alternativa|lösung|gabarito)"
)
_BEST = (
    r"(?:correct|right|best|final|likely|likeliest|appropriate|suitable|probable|remaining|richtig\w{0,2}"
    r"|korrekt\w?|corr?et[ao]|correct[ae])"
)
_HEDGE = (
    r"(?: ?(?:\b(?:the|most|likely|probably|definitely|clearly|certainly|therefore|thus|indeed|that"
    r"|obviously|still|simply|actually|la|das|(?<=é )a|it is|it's)\b|[:(→✓])){0,5} ?"
)
_STRONG = (
    rf"\b{_ANSWER}\b(?: (?!(?:not|never|cannot|isn't|is|was)\b)[\w'/]{{1,30}}){{0,8}}?"
    rf"(?: ?{_IS}){{1,2}}"
    rf"|\b{_BEST}(?: (?!(?:not|never|is|was)\b)[\w'-]{{1,30}}){{0,6}}? ?{_IS}"
    r"|\b(?:i|we)(?:'d|'ll|'m| would| will| am| have to| must)?(?: \w{2,12}ly)?"
    r"(?: (?:choose|chose|pick|put|select|say|answer|guess|think|believe|conclude|(?:go|going) with"
    r"|(?:settle|decide) on|opt for|vote for|lean(?:ing)? towards?)){1,2}"
    r"|^(?:(?:final|correct|my|the) )?"
    r"(?:answer|response|correction|verdict|antwort|respuesta|resposta)\b"
    r"|^(?:choose|select|pick|go with|mark)\b"
    r"|(?:答案|正解|答え|正确选项|我?选择?|정답|답|ответ|الجواب|الإجابة)\s?(?:应该|是|为|為|は|은|、|:){0,3}"
    rf"|\bnot \(?{_TOKEN}\)?,? but(?: rather)?"
)
"""What calls that which follows the answer; a letter may be followed by a reason."""
_WEAK = (
    r"\b(?:it|this|that)(?:'s| is| (?:must|has to|should|would) be)\b"
    r"|\b(?:so|therefore|thus|hence|leaves|leaving|point(?:s|ing)? to|suggests?|supports?"
    r"|favou?rs?|consistent with)\b[,:]?|\bla(?= )"
)
"""The same where the options end the clause."""
_STATED = re.compile(rf"(?i:(?P<strong>{_STRONG})|{_WEAK})(?i:{_HEDGE}){_GROUP}")
_STATED_AFTER = re.compile(
    rf"{_GROUP} (?i:(?P<is>(?:is|was|(?:would|must|should|has to) be|remains|seems|[=–—-]) )?"
    r"(?:\w{2,12}ly |most likely )?(?:the|my|our) "
    r"(?:(?!(?:wrong|incorrect|least|worst|second|only)\b)[\w-]{1,20} ){0,3}?"
    rf"{_ANSWER}\b(?! is\b))"
)
_VOID = re.compile(
    r"\b(?:if|unless|suppose|initially|at first|originally|previously)\b"
    r"|\b(?:first|initial) (?:guess|thought|impression|instinct)\b"
    r"|\b(?:patient|doctor|physician|resident|expert|professor|examiner|nurse|friend|teacher|user"
    r"|you|he|she|they) (?:\w{1,12} ){0,2}"
    r"(?:said|says?|claim(?:s|ed)?|thinks?|believes?|suggest(?:s|ed)?|answered|chose)\b"
    r"|\b(?:thinks|believes|claims|argues|insists)\b"
    r"|\b(?:not|never|cannot|\w{2,6}n't|least|worst|less|wrong|incorrect|false|except|whether|thought"
    r"|might|may|could|can|students?|candidates?|people|colleagues?|many|some|others|tempting"
    r"|mistak\w{1,5}|second[ -](?:most|best|choice)|neither|no)\b[^,;:]{0,200}$",
    re.IGNORECASE,
)
"""Before a claim, within its clause: a condition, somebody else's or an earlier view, a denial."""
_GOES_ON = re.compile(
    r"\.? (?:\d|(?!(?:and|as|because|but|nor|not|or|since|rather|instead|which|given|for|with|in"
    r"|due|at|on|when|by|based|from|over|i think|i believe)\b)[a-zà-ɏ])|[-–]\w|%"
)
"""After a claim: what makes a letter or a text the beginning of something else."""
_ENDS = re.compile(
    r"[\s.!;:,)}\]]*$|,? (?:because|since|as|which|given|rather)\b|[,:;(–—-] ?(?![A-J]\b)"
)
_UNSURE = re.compile(
    r"[^.\n]{0,60}\b(?:if|unless|only when)\b| ?\?"
    r"|,? ?(?:which |that )?(?:is|was) (?:wrong|incorrect|false|not (?:the|correct|right))\b"
)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|actually|sorry|apologi[sz]e|mistake|correction|corrected|instead|reconsider\w{0,5}"
    r"|hmm|re-?(?:evaluat|calculat|comput|check)\w{1,5}|(?:second|further) thought|reflection"
    r"|hold on|revis\w{1,5}|double-check\w{0,4}|scratch that)\b"
    r"|\bno[,.;:!]|\b(?:but|however|rather)\b[^.\n]{0,80}$",
    re.IGNORECASE,
)
"""Between two claims that differ: the first one is taken back."""
_CORRECTED = re.compile(
    r"(?im:(?:^|[.,;:!?…–—-] ?)(?:wait|actually|sorry|correction|hmm+|oops|scratch that|no)\b"
    r"[,.:!…]{0,3}(?: (?!(?:not|never|cannot)\b)[\w']{1,12}[,:]?){0,4} )"
    rf"\(?(?P<to>{_TOKEN})\)?(?im:[.!]?$|[.!]? (?:because|since|as)\b)"
)
"""After a claim: it is taken back for another option, with which the line closes."""
_RIGHT = (
    r"(?:correct|right|true|accurate|valid|yes|✓|the (?:best|correct|right)|better|preferred"
    r"|best(?=[.!,]|$)"
    r"|best (?:answer|choice|option|fit|match|explan\w{1,9}|supported|describes|accounts)"
    r"|(?:the )?most (?:likely|appropriate|consistent|suitable|plausible|probable|accurate|fitting)"
    r"|(?:(?<=must be )|(?:should|has to|ought to|needs to|to) be )"
    r"(?:chosen|selected|picked|preferred)"
    r"|(?:best |better )?(?:fits|matches|explains))(?![\w-])"
)
_DENIED = (
    r"(?:incorrect|wrong|false|✗"
    r"|(?:not|isn't|cannot be) (?:the |an? )?(?:correct|right|best|answer|good|suitable|appropriate"
    r"|indicated|recommended|effective)"
    r"|(?:(?:must|should|has to|ought|needs) (?:not|never)(?: to)? be|cannot be)"
    r" (?:chosen|selected|picked|preferred)"
    r"|(?<=would be )(?:very |quite |rather )?(?:dangerous|harmful|unsafe|fatal|lethal|deadly|toxic"
    r"|useless|pointless|ineffective|insufficient|inadequate|contraindicated|a mistake"
    r"|too \w{2,12})"
    r"|(?:(?:can|could|should|may|must|to) )?(?:all |both )?(?:be )?"
    r"(?:ruled out|excluded|eliminated|dismissed|rejected))(?![\w-])"
)
_SOFT = (
    r"(?:not|unlikely|less|contraindicated|cannot|never|irrelevant|unrelated|inappropriate|no|neither"
    r"|(?:is|are|ca|does|do|wo|would)n't|(?:does|do|would|can|should|could) not)\b"
)
"""What speaks against options and does not deny that one is the answer."""
_COPULA = (
    r"(?>(?: ?(?:\b(?:is|are|was|were|seems?|looks?|would be|must be|this|that|it|option|choice"
    r"|answer|also|clearly|definitely|all|both|therefore|thus|probably)\b|[:=(–—-])){1,5} ?)"
)
_VERDICT = re.compile(
    r"(?P<before>(?:^|[.;,:!?(] ?|(?i:\b(?:options?|choices?|answers?|letters?|both|either"
    r"|neither|think|believe|say|conclude|and|so|only|therefore|thus|hence|that|while|but"
    r"|although|why)) ))?"
    rf"{_GROUP}(?i:{_COPULA}|(?<=[{_B}{_CLASH})]) ?| (?=[✓✗])"
    r"| (?=(?:best |better )?(?:fits|matches|explains)\b)"
    r"| (?=(?:must|should|has to|ought|needs|cannot)\b(?: not| never)?(?: to)? be\b))"
    rf"(?i:(?P<right>{_RIGHT})|(?P<denied>{_DENIED})|{_SOFT})"
)
_RULED_OUT = re.compile(
    r"(?i:\b(?P<denied>(?:rul(?:e|ed|es|ing) out|eliminat\w{1,3}|exclud\w{1,3}|reject\w{0,3}"
    r"|discard\w{0,3}|not|neither|except)\b|(?:wrong|incorrect)(?: \w{1,12}){0,2} ?:)"
    rf"|\b(?:than|instead of|over)\b) ?{_GROUP}"
)
_OF_LINE = re.compile(
    r"(?:^|[,;:–—-] )"
    r"(?:(?:so|this|that|it|which|hence|therefore)(?: (?!not)\w{1,12}){0,2} )?(?:is )?"
    r"(?:(?P<right>correct|right|true|yes|✓)|incorrect|wrong|false|no|✗|not correct)"
    r"(?: (?:answer|choice|option))?\W{0,3}$",
    re.IGNORECASE,
)
"""The verdict on the option that labels its line, at the end of a clause."""
_LABEL = re.compile(
    rf"(?i:(?:probably|(?:most )?likely|definitely|maybe|perhaps),? )?(?i:{_NOUN} ?:? ?)?"
    r"\(?(?P<letter>[A-J])(?P<mark>\)?[.:)]{1,2}(?![\w.])|\)?[。、]|\)| ?[-–—](?= )|(?=$)|[!?](?=$)"
    r"|, (?=(?:but|as|because|since|although|though|while|not|rather)\b)"
    r"| (?=because\b|since\b|rather than\b|[(✓✗]))(?P<rest>.*)"
)
_HEADED = re.compile(
    rf"(?P<head>[^:\n]{{2,40}}) ?: (?:(?i:{_NOUN}) )?(?P<mark>\(?{_TOKEN}\)?)[.!]?"
)
"""A whole line in any language: "Gabarito: A"."""
_SCORE = re.compile(
    rf"(?<![{_IN_WORD}'.-])\(?([A-J{_T}{_B}])(?:\)|\)? ?[:=–—-]| \() ?(?:about |~|≈)?"
    r"(\d{1,3}(?:\.\d{1,6})?|\.\d{1,6})(?: ?(?:%|percent|/ ?\d{1,3}|out of \d{1,3}|points?))?"
    r"(?= ?(?:[,;()\n–—-]|\.(?: |\n|$)|$|\(?[A-J]\b))"
)
_NO_IDEA = re.compile(
    r"(?:(?:i|we) (?:do not|don't|cannot|can't|am not|have no)\b|not sure|unsure|unknown|no idea)",
    re.IGNORECASE,
)
_EXPLAINS = re.compile(
    r"(?:explanation|rationale|reason(?:ing)?|justification|discussion|why"
    r"|(?:the )?(?:other|incorrect|wrong) options)\b",
    re.IGNORECASE,
)
"""After an answer: lines from here on may label other options."""
_LOOK = (
    r"(?:check|consider|look at|look into|examine|evaluate|analy[sz]e|assess|review|discuss|explore"
    r"|(?:start|begin) with|go (?:through|over)|think about|weigh|compare)"
)
_LOOKING = rf"(?:{_LOOK}|(?:check|consider|look|examin|evaluat|start|begin+)ing(?: at| with)?)"
_CONSIDERED = re.compile(
    rf"(?i:\b{_LOOKING}|(?:^|[.;:!?\n] ?)(?:first|next|second|to begin|to start)(?:ly)?,?) \W?"
    rf"(?P<at_once>(?i:(?:the )?{_NOUN} )?)$"
    rf"|(?i:\b{_LOOKING}) (?P<named>{_ONE})[^.:;\n]{{0,30}}[.:;\n] ?$"
    rf"|(?i:\b{_LOOK} (?:(?:each|all|every|the|these|this|of|by|in|turn|one|more|first|closely"
    rf"|{_NOUN}) ?){{1,8}}[.:;\n] ?)$"
)
"""Before an option: what says that it is looked at, by its place, its name, or as one of all."""
_CONSIDERED_NEXT = re.compile(
    rf"[ ,;.(–—-]{{1,4}}(?:and |so )?(?:let me|let us|let's|(?:i|we)(?:'ll| will| shall| should"
    rf"| need to)?)(?: \w{{2,12}}){{0,2}}? {_LOOK} (?:it|this|that)(?: one|"
    rf" {_NOUN})?(?:$|[\n.,;:!]| (?:first|now|more|further|again|in|closely|carefully)\b)",
    re.IGNORECASE,
)
"""The same after it."""


class _Claim(NamedTuple):
    """Something that a reply says of options."""

    at: int
    """Where it names them."""
    end: int
    options: frozenset[str]
    """Letters; more than one where several are named, or letter and text clash."""


@dataclass(frozen=True, slots=True)
class _Claims:
    """What a reply says of options, in its order."""

    stated: list[_Claim] = field(default_factory=list)
    """They are the answer."""
    right: list[_Claim] = field(default_factory=list)
    """They are right."""
    denied: list[_Claim] = field(default_factory=list)
    """They are not the answer."""
    wrong: set[str] = field(default_factory=set)
    """Letters against which something speaks, denied ones too."""
    vague: set[str] = field(default_factory=set)
    """Letters that a statement names which cannot be read."""


class _Clause(NamedTuple):
    """A part of a sentence."""

    at: int
    text: str
    line: int


_SPLIT = re.compile(
    r"(?<=[!?;])\s|(?<=\.)(?<![ (][A-J]\.)(?<!^[A-J]\.)\s|(?<=[A-J]\.)\s(?![a-z])"
    r"|(?<![Nn]ot .),? (?=but\b|however\b|whereas\b|while\b)|, (?=so\b|therefore\b|thus\b|hence\b)"
)


def _clauses(text: str) -> Iterator[_Clause]:
    at = 0
    for number, line in enumerate(text.split("\n")):
        begin = 0
        for match in _SPLIT.finditer(line):
            yield _Clause(at + begin, line[begin : match.start()], number)
            begin = match.end()
        yield _Clause(at + begin, line[begin:], number)
        at += len(line) + 1


def _letter_of(mark: str) -> str:
    return mark if mark in LETTERS else LETTERS[ord(mark) & 0xFF]


def _letters(group: str) -> frozenset[str]:
    """Return the letters of options that are named; a clash counts as two of no option."""
    marks = re.findall(_TOKEN, group)
    return frozenset("".join("?!" if mark == _CLASH else _letter_of(mark) for mark in marks))


def _claims(text: str) -> _Claims:
    claims, of_line, number = _Claims(), frozenset[str](), -1
    for clause in _clauses(text):
        label = _label(clause.text)
        if label is not None or clause.line != number:
            of_line = label.options if label is not None else frozenset()
        number = clause.line
        if clause.text.endswith("?"):
            continue
        matches = [m for pattern in (_STATED, _STATED_AFTER) for m in pattern.finditer(clause.text)]
        stated = [_claim(clause, match) for match in matches if _is_stated(clause.text, match)]
        claims.stated.extend(stated)
        if not stated and re.search(rf"\b{_BEST} answer (?:is|:)", clause.text, re.IGNORECASE):
            claims.vague.update(_letters(clause.text))
        for match in _VERDICT.finditer(clause.text):
            is_label = clause.text[match.end("group") : match.end("group") + 1] in (":", ")")
            if is_label or match["before"] is not None or _MAY_BE_LABEL.match(match["group"]):
                _judge(claims, clause, match)
        for match in _RULED_OUT.finditer(clause.text):
            _oppose(claims, _claim(clause, match), match["denied"])
        if of_line and (verdict := _OF_LINE.search(clause.text[-80:])):
            end = clause.at + len(clause.text)
            claim = _Claim(end, end, of_line)
            claims.right.append(claim) if verdict["right"] else _oppose(claims, claim, "denied")
    claims.stated.sort()
    return claims


def _claim(clause: _Clause, match: re.Match[str]) -> _Claim:
    at, end = match.span("group")
    return _Claim(clause.at + at, clause.at + end, _letters(match["group"]))


def _judge(claims: _Claims, clause: _Clause, match: re.Match[str]) -> None:
    """Add a verdict on options."""
    claim = _claim(clause, match)
    if match["right"] is None:
        _oppose(claims, claim, match["denied"])
        return
    before = clause.text[max(0, match.start() - 200) : match.start("group")]
    if not _VOID.search(before) and not _UNSURE.match(clause.text, match.end()):
        claims.right.append(claim)


def _oppose(claims: _Claims, claim: _Claim, denied: str | None) -> None:
    claims.wrong.update(claim.options)
    if denied:
        claims.denied.append(claim)


_MAY_BE_LABEL = re.compile(rf"[(]?(?:[{_T}{_B}{_CLASH}]|(?i:{_NOUN})|[A-J]\))")
_FREE = re.compile(
    r"(?:^|[^\w ] ?|\b(?:options?|choices?|answers?|letters?|both|and|so|only|therefore|thus|hence"
    r"|that) )\(?$",
    re.IGNORECASE,
)
"""Before a letter that is no part of a name such as "vitamin D"."""


def _is_stated(clause: str, match: re.Match[str]) -> bool:
    """Return whether a reply itself says, without a condition, that options are the answer."""
    before = clause[max(0, match.start() - 200) : match.start("group")].rstrip(" :(=-")
    if _UNSURE.match(clause, match.end()):
        return False
    if match.re is _STATED_AFTER:
        is_free = match["is"] is None or _MAY_BE_LABEL.match(match["group"])
        return not _VOID.search(before) and bool(is_free or _FREE.search(before[-20:]))
    if re.search(r"\b[Nn]ot .{1,5} but\b", before[-20:]):
        before = clause[max(0, match.start() - 200) : match.start()]
    if _VOID.search(re.sub(r"(?i)most likely", "", before)):
        return False
    if not match["strong"] and not _ENDS.match(clause, match.end()):
        return False
    is_labelled = match["group"].rstrip(")'")[-1] > chr(_TEXT + 0xFF)
    return is_labelled or not _GOES_ON.match(clause, match.end())


class _Label(NamedTuple):
    """The label of a line."""

    options: frozenset[str]
    """One letter; two where its text is another option's."""
    is_whole: bool = True
    """Whether the line says nothing else."""
    with_text: bool = False
    """Whether the option's own text is part of it."""


_NEITHER = frozenset("?!")


def _label(line: str) -> _Label | None:
    """Return the label with which a line begins; None if it begins with none."""
    if headed := _HEADED.fullmatch(line):
        return None if _VOID.search(headed["head"]) else _Label(_letters(headed["mark"]))
    start = line.lstrip("(")
    if (mark := start[:1]) >= "\ue000":
        rest = start[1:].strip(" .!):;,")
        if mark < chr(_BOTH) and rest and not re.match(r"[.!] ", start[1:]):
            return None
        return _Label(_letters(mark), not rest, mark >= chr(_BOTH))
    match = _LABEL.match(line)
    if match is None:
        return None
    letter, sign, rest = match["letter"], match["mark"].strip(), match["rest"].strip()
    is_name = (sign[:1] == "." and rest[:1].islower()) or (
        letter == "I" and rest and sign[:1] not in (".", ")", ":")
    )
    if is_name:
        return None
    other = re.match(
        rf"(?:{_TOKEN}\W*$|\W*(?i:or|and|nor|to|vs|[/,&])\W{{1,3}}{_TOKEN}"
        rf"|(?:[\w-]{{1,20}} )?\(?[{_T}])",
        rest,
    )
    is_list = sign.endswith("、") and re.match(r"[A-J](?![A-Za-z])", rest)
    if _NO_IDEA.match(rest) or is_list or (other and _letters(other[0]) != {letter}):
        return _Label(_NEITHER, not rest)
    return _Label(frozenset(letter), not rest)


_INLINE = re.compile(rf"[{_B}{_CLASH}]|(?<= )\(?[A-J](?=[:)] )")
"""Labels of options within a line."""


def _labelled(text: str, letters: str, claims: _Claims) -> list[_Claim] | None:
    """Return the labels that may be answers; None if other lines label other options."""
    lines, good, at = text.split("\n"), list[_Claim](), 0
    labels = [_label(line) for line in lines]
    first = next((i for i, line in enumerate(lines) if re.search(_TOKEN, line)), 0)
    end = next((i for i in range(first + 1, len(lines)) if _EXPLAINS.match(lines[i])), None)
    texts = [one.options for one in labels[:end] if one and one.is_whole and one.with_text]
    is_list = len(set(texts)) == len(letters)
    for number, (line, label) in enumerate(zip(lines, labels, strict=True)):
        if good and _EXPLAINS.match(line):
            break
        if label is not None and not (is_list and label.is_whole and label.with_text):
            if _letters(" ".join(_INLINE.findall(line))) - label.options - claims.wrong:
                return None
            is_last = number == len(lines) - 1 and label.is_whole
            is_first = number == 0 or (label.is_whole and number == first)
            if is_first or is_last or (label.is_whole and label.with_text):
                if not _is_considered(text, at, at + len(line), label.options):
                    good.append(_Claim(at, at + 1, label.options))
            elif not label.options <= claims.wrong and all(
                label.options != one.options for one in good
            ):
                return None
        at += len(line) + 1
    return good


def _is_considered(text: str, at: int, end: int, options: frozenset[str]) -> bool:
    """Return whether the options named in a part of a reply are only looked at."""
    if before := _CONSIDERED.search(text[max(0, at - 100) : at]):
        # Who says that all options are looked at begins with the first one.
        named = frozenset("A") if before["named"] is None else _letters(before["named"])
        if before["at_once"] is not None or named == options:
            return True
    mark = re.search(_TOKEN, text[at:end])
    return mark is not None and bool(_CONSIDERED_NEXT.match(text, at + mark.end(), end))


_CLOSING = re.compile(
    rf"(?:^|(?<=[\w)]) ?[,:;–—-] |[(]|(?i:{_NOUN}) )\(?(?P<letter>[A-J])\)?[.!]*$"
    rf"|(?P<both>[{_B}])\)?[.!]*$"
)


def _closing(text: str, claims: _Claims) -> frozenset[str]:
    """Return the option with which a reply closes, if all others that it names are wrong."""
    *_, clause = _clauses(text)
    match = _CLOSING.search(clause.text)
    if match is None or _VOID.search(clause.text[max(0, match.start() - 200) : match.start()]):
        return frozenset()
    letter = frozenset(_letter_of(match["letter"] or match["both"]))
    at = clause.at + match.start("letter" if match["letter"] else "both")
    if _is_considered(text, at, len(text), letter):
        return frozenset()
    texts = _letters("".join(re.findall(f"[{_B}{_CLASH}]", text)))
    others = _letters(clause.text) | texts | _letters(text[: clause.at]) - {"A"}
    return letter if others - claims.wrong <= letter else frozenset()


_NO_PROBABILITY = re.compile(r"\b(?:rank|risk|wrong|incorrect|safest|mortality)", re.IGNORECASE)
"""What makes numbers for the options something else than how likely each is the answer."""


def _scored(text: str, options: Sequence[str]) -> str | None:
    """Return the letter with the largest number, where two options or more have one."""
    scores = {_letter_of(mark): float(number) for mark, number in _SCORE.findall(text)}
    top = [letter for letter, score in scores.items() if score == max(scores.values())]
    if len(scores) < 2 or len(top) > 1 or _NO_PROBABILITY.search(text):
        return None
    return None if any(option[:1].isdigit() for option in options) else top[0]


def _last(claims: Sequence[_Claim], text: str, wrong: set[str]) -> frozenset[str]:
    """Return what the last claim names.

    Nothing if it differs from one that was not taken back, or is itself taken back for an option
    that is not called wrong.
    """
    if not claims:
        return frozenset()
    last = claims[-1]
    earlier = [one for one in claims if one.options != last.options]
    if earlier and not _TAKEN_BACK.search(text[earlier[-1].end : last.at]):
        return frozenset()
    for match in _CORRECTED.finditer(text, last.end):
        if _letters(match["to"]) - wrong - last.options:
            return frozenset()
    return last.options


# The rule.


def final_statement(text: str, options: Sequence[str], *, is_cut: bool = False) -> str | None:
    """Return the letter of the option that a reply commits to; None if it is unreadable.

    Args:
        text: the reply.
        options: their texts, as the victim saw them.
        is_cut: whether the reply ended at `max_new_tokens`; then only a statement counts.

    >>> drugs = ["Aspirin", "Warfarin", "Heparin", "Apixaban"]
    >>> final_statement("A: Aspirin\\nB: Warfarin\\nThe answer is C.", drugs)
    'C'
    >>> final_statement("A: Aspirin\\nB: Warfarin", drugs)
    """
    letters = LETTERS[: len(options)]
    if len(text) == 1 and text in letters and not is_cut and all(len(one) > 1 for one in options):
        return text  # as functions answer; nothing else could be meant
    reply = without_thoughts(text)
    if len(reply) > LONGEST_READ:
        reply = f"{reply[: LONGEST_READ // 2]}\n{reply[-LONGEST_READ // 2 :]}"
    if (end := next_question(f"{reply}\n")) is not None:
        reply, is_cut = reply[:end], False
    reply = _marked(_plain(reply), options)
    claims = _claims(reply)
    stated = [one for one in claims.stated if not (is_cut and one.end == len(reply))]
    if stated:
        named = _settled(stated, claims, reply)
    elif is_cut:
        return None
    elif claims.right:
        named = frozenset[str]().union(*(one.options for one in claims.right)) - claims.wrong
    else:
        named = _unstated(reply, letters, options, claims)
    return next(iter(named)) if len(named) == 1 and named <= set(letters) else None


def _settled(stated: Sequence[_Claim], claims: _Claims, text: str) -> frozenset[str]:
    """Return what statements name that no later verdict denies."""
    last, named = stated[-1], _last(stated, text, claims.wrong)
    better = [
        one
        for one in claims.right
        if one.at > last.at and len(one.options) == 1 and one.options != last.options
    ]
    if better:
        return _last([last, *better], text, claims.wrong)
    is_denied = any(one.at > last.at and one.options & named for one in claims.denied)
    return frozenset() if is_denied else named


def _unstated(text: str, letters: str, options: Sequence[str], claims: _Claims) -> frozenset[str]:
    """Return what labels, the end of a reply, or numbers name where it states nothing."""
    labels, score = _labelled(text, letters, claims), _scored(text, options)
    if score is not None:
        first = _label(text.split("\n", 1)[0])
        is_other = first is not None and first.is_whole and score not in first.options
        return frozenset() if is_other else frozenset(score)
    named = _last(labels, text, claims.wrong) if labels else frozenset[str]()
    if labels == []:
        named = _closing(text, claims)
    denied = frozenset[str]().union(*(one.options for one in claims.denied))
    return frozenset() if named & denied or claims.vague - named else named


# The papers' own parsers, and which one reads.


def exact(text: str, options: Sequence[str]) -> str | None:
    """Return the text if it is exactly one letter (the released script for T5 models).

    >>> exact("B", ["Yes", "No"]), exact("B.", ["Yes", "No"])
    ('B', None)
    """
    return text if len(text) == 1 and text in LETTERS[: len(options)] else None


def first_four(text: str, options: Sequence[str]) -> str | None:
    """Return the first option letter among four characters (the released MedAlpaca script).

    The published rule is too lenient: the gold letter counts if it occurs at all, so "A or B" is
    right for both. Here the first letter counts, which does not depend on the gold.

    >>> first_four(" A or B", ["Yes", "No"])
    'A'
    """
    letters, segment = LETTERS[: len(options)], text.replace("\n", "").removeprefix(" ")
    return next((character for character in segment[:4] if character in letters), None)


def single_character(text: str, options: Sequence[str]) -> str | None:
    """Return the text if it is one letter after stripping (the released DiscreteZOO fork).

    >>> single_character(" B\\n", ["Yes", "No"]), single_character("B)", ["Yes", "No"])
    ('B', None)
    """
    return exact(text.strip(), options)


PARSERS: dict[str, Parser] = {
    "final_statement": final_statement,
    "exact": exact,
    "first_four": first_four,
    "single_character": single_character,
}
SUMMARIES = {
    "final_statement": "the one option that a reply commits to, by statement, verdict or label",
    "exact": "the text is the letter and nothing else (released script for T5, Xian et al.)",
    "first_four": "the first option letter in four characters (released script for MedAlpaca)",
    "single_character": "one character and white space (released fork of DiscreteZOO)",
}
"""One line for each parser, for `medstress list parsers`."""


def letter_read(
    parser: str, text: str, options: Sequence[str], own: Marks = None, *, is_cut: bool = False
) -> str | None:
    """Read a reply with a parser; None if it is unreadable.

    Args:
        parser: a name of `PARSERS`.
        text: the reply, thoughts too.
        options: their texts, as the victim saw them.
        own: marks of the model's thoughts, on top of the usual ones.
        is_cut: whether the reply ended at `max_new_tokens`; then only a statement counts.
    """
    reply = without_thoughts(text, own)
    if parser == DEFAULT:
        return final_statement(reply, options, is_cut=is_cut)
    return None if is_cut else PARSERS[parser](reply, options)
