"""What `final_statement` takes for an answer, and what it does not."""

# ruff: noqa: E501

from __future__ import annotations

import time

import pytest

from medstress.tasks.reading import PARSERS, final_statement, letter_read, unknown_marks
from medstress.tasks.replies import Letter, read_reply

DRUGS = ["Aspirin", "Warfarin", "Heparin", "Apixaban"]
FUNGI = ["Fluconazole", "Amphotericin B", "Nystatin", "Caspofungin"]
LIVER = ["Cirrhosis", "Hepatitis", "Hepatitis B", "Malaria"]
FACTORS = ["Factor", "Factor V", "Plasmin", "Protein C"]
IONS = ["Na", "K", "Ca", "Mg"]
NUMBERS = ["Warfarin", "1", "3", "10"]
BLOOD = ["A", "B", "AB", "O"]
TEN = [f"drug {name}" for name in "klmnopqrst"]

SAYS_C = [
    "C",
    "c",
    "(C)",
    "C.",
    "C: Heparin",
    "C. Heparin",
    "C) Heparin is best because it acts fast.",
    "**C. Heparin**\n\nExplanation: A. Aspirin is an antiplatelet.\nB. Warfarin is slow.",
    "Heparin",
    "Heparin.",
    "heparin (C)",
    "Option C",
    "Choice C: Heparin.",
    "The answer is C.",
    "The correct answer is **C. Heparin**.",
    "The correct answer is (C) Heparin",
    "Answer: C",
    "ANSWER: C",
    "Answer:\n\nC. Heparin",
    "Ans. C",
    "\\boxed{C}",
    "$\\boxed{\\text{(C) Heparin}}$",
    "<answer>C</answer>",
    "[ANSWER]C[/ANSWER]",
    '{"answer": "C"}',
    '{"answer": "C", "explanation": "A is an antiplatelet; B is slow."}',
    '```json\n{\n  "reasoning": "A: slow.",\n  "answer_letter": "C"\n}\n```',
    "{'answer': 'C'}",
    '{"choice":"C","confidence":0.9}',
    '{"A": 0.05, "B": 0.05, "C": 0.85, "D": 0.05}',
    "A: 5%\nB: 5%\nC: 85%\nD: 5%",
    "A: 1/5, B: 2/5, C: 5/5, D: 1/5",
    "A: incorrect; B: incorrect; C: correct; D: incorrect",
    "A: incorrect\nB: incorrect\nC: correct",
    "A - False. B - False. C - True. D - False.",
    "A: No\nB: No\nC: Yes\nD: No",
    "A ❌\nB ❌\nC ✅\nD ❌",
    "❌ A. Aspirin\n❌ B. Warfarin\n✅ C. Heparin\n❌ D. Apixaban",
    "| Option | Verdict |\n|---|---|\n| A | Incorrect |\n| B | Incorrect |\n| C | Correct |\n| D | Incorrect |",
    "A: The answer is C: Z",
    "A: Aspirin - an antiplatelet, incorrect.\nB: Warfarin - slow, incorrect.\nC: Heparin - fast. This is correct.\nD: Apixaban - oral. Incorrect.",
    "A: Aspirin\nB: Warfarin\nC: Heparin\nD: Apixaban\n\nThe best choice is C.",
    "B\n\nWait, let me check.\nC",
    "B\nCorrection: C",
    "The answer is A. Wait, actually the answer is C.",
    "Many students choose A, but the answer is C.",
    "Is it A? No. The answer is C.",
    "I would choose C.",
    "I'd go with C",
    "My pick would be C.",
    "So C.",
    "Therefore, C is the correct answer.",
    "C is correct.",
    "Option C is the best answer.",
    "Only C is right.",
    "C fits best.",
    "Not A. C.",
    "It is not A but C.",
    "C, not A.",
    "C rather than B because it is fast",
    "答案是C。",
    "答案：C",
    "正确答案是 C",
    "正解はCです",
    "정답: C",
    "Ответ: C",
    "Die richtige Antwort ist C.",
    "La respuesta correcta es C.",
    "La réponse correcte est C.",
    "A resposta correta é a C",
    "Antwort: C",
    "#### C",
    "Final Answer: The final answer is $\\boxed{C}$. I hope it is correct.",
    "The most likely answer is C, since heparin acts fast.",
    "The answer that best fits the clinical picture is C",
    "[Answer]: C",
    "[Answer]: C\n[Question]: What?\n[Answer]: A",
    "C\n\nQuestion: next one\nA: x\nAnswer: B",
    "I think it's C",
    "I believe the answer is C, though B is possible.",
    "Looking at the options, heparin is the best choice.",
    "The best treatment is heparin.",
    "The correct option is C",
    "Sure! The answer is:\n\nC. Heparin",
    "Sure! Here's my answer:\n\nC. Heparin\n\nHeparin acts by...",
    "Based on the presentation, this leaves C.",
    "We can rule out A, B and D. That leaves C.",
    "A is wrong because it is slow. B is wrong. D is wrong. Therefore C.",
    "C (85% confident)",
    "Confidence: 85%\nAnswer: C",
    "<|channel|>analysis<|message|>A? B?<|end|><|start|>assistant<|channel|>final<|message|>C",
    "analysisMaybe A. Answer is A.assistantfinalThe answer is C.",
    "<reflection>A</reflection>C",
    "◁think▷A◁/think▷C",
    "<unused94>thought A <unused95>C",
    "<|begin_of_thought|>A<|end_of_thought|>\n<|begin_of_solution|>C<|end_of_solution|>",
    "## Thinking\nMaybe A\n## Final Response\nThe answer is C",
    "Step 1: Consider A. Step 2: consider B.\nFinal answer: C",
    "The answer is C. Option A is incorrect because it is slow. Option B is wrong too.",
    "C. Heparin\n\nA is incorrect because...\nB is incorrect because...\nD is incorrect.",
    "C. Heparin is the right choice.\n- A. Aspirin: wrong, it is an antiplatelet.\n- B. Warfarin: wrong, slow.\n- D. Apixaban: wrong.",
    "The patient likely has HIT.\n\n**C. Heparin**\n\nThis is because of X.",
    "Some might say A, but I choose C.",
    "Answer - C",
    "Answer = C",
    "answer: c",
    "option c",
    "The answer is option (c).",
    "I initially thought the answer was A. However, the answer is C.",
    "If I had to choose, I would pick C.",
    "As an AI I cannot give advice, but if I had to choose, the answer would be C.",
    "A: Aspirin is wrong.\nB: Warfarin is wrong.\nC: Heparin is correct.\nD: Apixaban is wrong.",
    "Heparin is the correct answer.",
    "The correct answer is Heparin.",
    "I'd choose heparin.",
    "Let's think step by step. The patient has DVT. Heparin is first line. So the answer is C.",
    "C\n",
    " C: Heparin\n\n\n",
    "C, because it is fast",
    "C because it is fast",
    "C - Heparin",
    "C – Heparin",
    "Answer: C. Heparin. Explanation: Warfarin is slow.",
    "The correct answer is C) Heparin. A) Aspirin is incorrect. B) Warfarin is not used acutely. D) Apixaban is oral.",
    "Between A and C, I'd pick C.",
    "A is the most common cause, but C is the best answer here.",
    "While A is tempting, C is correct.",
    "The correct answer is not A but C.",
    "A. No\nB. No\nC. Yes\nD. No",
    "Not B; C.",
    "Top choice: C; second choice: B",
    "Final: C",
    "C= Heparin",
    "Response: The answer is option C which is Heparin.",
    'The answer is "C".',
    "Is it A? Is it B? It's C.",
    "A: 0\nB: 0\nC: 1\nD: 0",
    "P(A)=0.1, P(B)=0.1, P(C)=0.7, P(D)=0.1",
    "A (10%), B (20%), C (60%), D (10%)",
    "Confidence: A=2, B=1, C=9, D=3",
    "<p>The answer is <b>C</b></p>",
    "**Answer**: **C**",
    "> C",
    "ANSWER\n======\nC",
    "Answer: (C)\nConfidence: 80%",
    '{"answer": "C. Heparin"}',
    '{"answer": "Heparin"}',
    '{"answer": ["C"]}',
    '{"selected": "C"}',
    '{"result": {"answer": "C"}}',
    '{"A": false, "B": false, "C": true, "D": false}',
    "reasoning: >\n  it acts fast\nanswer: C",
    "<response><reasoning>A is..</reasoning><answer>C</answer></response>",
    "Thought: should I choose A?\nAction: think\nFinal Answer: C",
    "Thought: the answer might be A.\nFinal Answer: C",
    "Heparin (option C) would be the right choice",
    "Please consult a doctor. C",
    "Of A, B, C and D, the best is C.",
    "C!!",
    "It's C, obviously.",
    "Neither A nor B. C.",
    "The patient needs rapid anticoagulation; among the options, Heparin (C) is preferred.",
    "Aspirin is an antiplatelet. Warfarin is slow. Apixaban is oral. Heparin is the correct choice.",
    "Correct option: (C). Rationale: A and B are slow.",
    "Step 1: Consider A: no.\nStep 2: Consider B: no.\nStep 3: C: yes.",
    "The answer is A? No, the answer is C.",
    "The answer A is wrong, the answer is C.",
    "One could argue for A; however the guidelines favor C.",
    "The guideline answer used to be A, but now it is C.",
    "C\nC",
    "The answer is C.\n\nThe answer is C.",
    "Let me think about each option.\nA. Aspirin: would not help.\nB. Warfarin: too slow.\nC. Heparin: works at once.\nD. Apixaban: not for acute use.\nSo the answer must be C.",
    "Answer: C (Heparin)",
    "Answer: Heparin (C)",
    "Heparin is best.",
    "My answer is C with 90% confidence.",
    "Final answer (letter only): C",
    "Selected option: C",
    "Choice: C",
    "Pick C.",
    "C。因为肝素起效快。",
    "选C",
    "我选择C。",
    "答えはCです。",
    "정답은 C입니다.",
    "Правильный ответ: C",
    "Ответ — C.",
    "La bonne réponse est la C.",
    "Réponse : C",
    "La risposta corretta è C.",
    "Risposta: C",
    "Het juiste antwoord is C.",
    "Rätt svar: C",
    "Prawidłowa odpowiedź: C",
    "Cevap: C",
    "सही उत्तर: C",
    "Đáp án: C",
    "Oops, I said A. It should be C.",
    "Answer: B. Correction — the answer is C.",
    "The correct answer is C, not A.",
    "C is the answer, A is wrong.",
    "Grade A evidence supports C.",
    "The student answered A. The correct answer is C.",
    "You chose A, but the right answer is C.",
    "Question: Which drug?\nOptions:\nA: Aspirin\nB: Warfarin\nC: Heparin\nD: Apixaban\nAnswer: C",
    "Verdict: ✅ C",
    "👉 C. Heparin",
    "Answer 👉 C",
    "Ⓒ",
    "Ｃ",
    "A ✗\nB ✗\nC ✓\nD ✗",
    "[ ] A\n[ ] B\n[x] C\n[ ] D",
    "A: Unlikely\nB: Possible\nC: Most likely\nD: Unlikely",
]


@pytest.mark.parametrize("reply", SAYS_C)
def test_an_answer_is_read(reply: str) -> None:
    assert final_statement(reply, DRUGS) == "C"


SAYS_NOTHING = [
    "A: Aspirin\nB: Warfarin\nC: Heparin\nD: Apixaban",
    "C. difficile",
    "B is less likely than A",
    "The least likely answer is A",
    ":D",
    "D. I don't know",
    "I, as an AI language model, cannot answer.",
    "Both A and C are correct.",
    "A or B",
    "A and B",
    "The answer is A or B.",
    "The answer is A. The answer is C.",
    "If the patient were pregnant the answer would be A.",
    "The answer is B. Heparin",
    "B: Heparin",
    "The patient has vitamin D deficiency and hepatitis B.",
    "A 45-year-old man has angina.",
    "I cannot answer that.",
    "None of the above.",
    "It depends.",
    "E",
    "The answer is E.",
    "The answer is not A.",
    "A, B, C",
    "<think>The answer is A.",
    "It could be A or C.",
    "1. A\n2. B\n3. C",
    "The drug of choice is warfarin? No, heparin.",
    "Answer: A and C",
    "Correct: A, C",
    "C > A > B > D",
    '{"answer": 2}',
    "I'm sorry, but I can't provide medical advice.",
    "The options are: A: Aspirin, B: Warfarin, C: Heparin, D: Apixaban.",
    "Answer: A\nAnswer: B",
    "3",
    "C or maybe B",
    "Heparin sodium",
    "Answer A is wrong.",
    "I am torn between A and C.",
    "C\nB",
    "Let me think about each option.\nA. Aspirin: would not help.\nB. Warfarin: too slow.\nC. Heparin: works at once.\nD. Apixaban: not for acute use.",
    "The patient should receive heparin.",
    "A... no wait, C.",
    "Everything but A",
    "All but A and B",
    "I think A is a patient with",
    "A good answer is hard.",
    "A B C D",
    "A,B,C,D",
    "ABCD",
    "I",
    "I don't know",
    "The answer is Vitamin C",
    "Hepatitis B",
    "If the patient is stable, C. Otherwise A.",
    "C if stable, A if not",
    "🅲",
    "( ) A ( ) B (X) C ( ) D",
    "~~A~~ ~~B~~ **C** ~~D~~",
    "Likelihood:\nA - low\nB - low\nC - high\nD - low",
]


@pytest.mark.parametrize("reply", SAYS_NOTHING)
def test_what_is_no_answer_is_not_read(reply: str) -> None:
    assert final_statement(reply, DRUGS) is None


CASES = [
    ("I would rule out C. The remaining one is B.", DRUGS, "B"),
    ("B, C and D are incorrect. A is right.", DRUGS, "A"),
    # A letter that belongs to a name, and a text that is another option's.
    ("C. difficile", ["E. coli", "B. fragilis", "C. difficile", "S. aureus"], "C"),
    ("B. fragilis", ["E. coli", "C. difficile", "B. fragilis", "S. aureus"], "C"),
    ("A: Amphotericin B", FUNGI, None),
    ("The answer is A: Amphotericin B", FUNGI, None),
    ("B: Amphotericin B", FUNGI, "B"),
    ("Amphotericin B", FUNGI, "B"),
    ("I, as an AI language model, cannot say.", TEN, None),
    ("I think so.", TEN, None),
    ("The answer is I.", TEN, "I"),
    ("drug t", TEN, "J"),
    ("Everything but A", DRUGS, None),
    ("All but A", DRUGS, None),
    ("Anything but B", DRUGS, None),
    ("All of them but C.", DRUGS, None),
    ("Every option but (A)", DRUGS, None),
    ("All but A and B", DRUGS, None),
    ("The answer is everything but D", DRUGS, None),
    ("It could be all but option B.", DRUGS, None),
    ("It cannot be A.", DRUGS, None),
    ("All but A. So the answer is C", DRUGS, "C"),
    ("I considered all, but A is right", DRUGS, "A"),
    ("All are plausible but B is best", DRUGS, "B"),
    ("Answer: Hepatitis A", LIVER, None),
    ("The answer is Hepatitis C.", LIVER, None),
    ("Hepatitis A", LIVER, None),
    ("Answer: Hepatitis B", LIVER, "C"),
    ("Answer: Hepatitis", LIVER, "B"),
    ("The answer is Hepatitis, which is not rare", LIVER, "B"),
    ("Answer: Factor II", FACTORS, None),
    ("Answer: Factor V", FACTORS, "B"),
    ("Answer: Plasmin C", FACTORS, "C"),
    # Options of one character.
    ("3", NUMBERS, "C"),
    ("10", NUMBERS, "D"),
    ("K", IONS, "B"),
    ("O", BLOOD, "D"),
    ("A", BLOOD, "A"),
    ("C", IONS, "C"),
    ("The answer is 3", NUMBERS, "C"),
    ("Answer: 1.", NUMBERS, "B"),
    ("Answer: **3**\nBecause of its half-life", NUMBERS, "C"),
    ("The answer is 3, because it is odd", NUMBERS, "C"),
    ("Answer: K", IONS, "B"),
    ("The answer is K because it is in cells", IONS, "B"),
    ("The answer is O.", BLOOD, "D"),
    ("The answer is B.", BLOOD, "B"),
    ("There are 3 of them", NUMBERS, None),
    ("The answer is 3.5", NUMBERS, None),
    ("The answer is 3 mg", NUMBERS, None),
    ("The answer is 3, 1", NUMBERS, None),
    ("The answer is 1:3", NUMBERS, None),
    ("The answer is 1/3", NUMBERS, None),
    ("The answer is -3", NUMBERS, None),
    ("So 3 is too low", NUMBERS, None),
    ("The answer is D, 3 days later", NUMBERS, "D"),
    ("The answer is vitamin K", IONS, None),
    ("The answer is K+", IONS, None),
]

CONSIDERED = [
    # An option that is only looked at, with nothing concluded.
    ("Let me check A first. A: Aspirin.", None),
    ("A: Aspirin — let us consider it", None),
    ("Let me check B.\nB: Warfarin", None),
    ("I will go through the options one by one. A: Aspirin.", None),
    ("First, A. Aspirin.", None),
    ("Let's start with A. Aspirin", None),
    ("Starting with option B: Warfarin.", None),
    ("Consider C: Heparin.", None),
    ("B) Warfarin - let me think about this one.", None),
    ("C: Heparin. Let's look at this option first.", None),
    # One option would harm, another one is to be chosen.
    ("A. Aspirin would be dangerous here. Warfarin must be chosen.", "B"),
    ("A. Aspirin would be harmful. Heparin should be selected.", "C"),
    ("B: Warfarin would be too slow. Apixaban has to be picked.", "D"),
    ("A. Aspirin would be fatal in this patient.", None),
    ("Option A would be unsafe. Option C is to be preferred.", "C"),
    # What only sounds alike.
    ("Let me check A first. A is an antiplatelet. So the answer is C.", "C"),
    ("Let me look at the options. C", "C"),
    ("Let me look at the options\nC", "C"),
    ("Let me look at the options.\nA: Aspirin", None),
    ("Let me check A. C.", "C"),
    ("Let me check. Heparin is fast. C. Heparin", "C"),
    ("C. Heparin. Let me explain why the others are wrong.", "C"),
    ("Looking at the options, C.", "C"),
    ("If the valve is mechanical, warfarin must be chosen.", None),
    ("Warfarin should not be chosen. C", "C"),
    ("Warfarin must not be chosen.", None),
]


@pytest.mark.parametrize(("reply", "letter"), CONSIDERED)
def test_what_is_only_considered_is_no_answer(reply: str, letter: str | None) -> None:
    assert final_statement(reply, DRUGS) == letter
    assert final_statement(reply, DRUGS, is_cut=True) in (None, letter)


@pytest.mark.parametrize(("reply", "options", "letter"), CASES)
def test_a_reply_is_read_as_a_careful_reader_reads_it(
    reply: str, options: list[str], letter: str | None
) -> None:
    assert final_statement(reply, options) == letter


@pytest.mark.parametrize("reply", ["C", "C: Heparin", "Only C is right.", "A: 5%, C: 85%"])
def test_of_a_reply_that_was_cut_off_only_a_statement_counts(reply: str) -> None:
    assert final_statement(reply, DRUGS) == "C"
    assert final_statement(reply, DRUGS, is_cut=True) is None
    assert final_statement(f"The answer is C. {reply}", DRUGS, is_cut=True) == "C"
    # It was not cut: it goes on to a next question.
    assert final_statement(f"{reply}\nQuestion: Which", DRUGS, is_cut=True) == "C"


PIECES = (
    "A ", "A, ", "A:\n", "A: 5%, ", "not ", "answer:", "answer is ", "Vitamin D ", "A and B, ", "(", ")",
    "*", "\n", "[", "|", "correct ", "I think ", "The answer is A. ", "A is right. ", "let me check A. ",
    "Question:\n", "wait ", "\\boxed{", "<think>", "<a_start>", "```", "> ", " ", ".", "\t", "\u0301",
    '{"', '{"a":', '{"a":[', '{"a":"',
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_a_long_reply_is_read_in_well_under_a_second(piece: str) -> None:
    for reply in (piece * 13_000, f"answer{piece * (1_000_000 // len(piece))}A"):
        for parser in PARSERS:
            started = time.process_time()
            letter_read(parser, reply, DRUGS)
            assert time.process_time() - started < 1
        unknown_marks(reply)
        read_reply(reply, Letter)
        assert time.process_time() - started < 2


def test_the_end_of_a_very_long_reply_counts() -> None:
    thought = "<think>" + "It might be A, or B. " * 10_000 + "</think>"
    assert letter_read("final_statement", f"{thought}\nThe answer is C.", DRUGS) == "C"
