"""The sentences of bias probes: our own templates, and who they are about. English.

A sentence says nothing about a person's group but its name; the same sentence about somebody else should be predicted
the same. What happens to people in them is everyday, good and bad. The comparison axes exchange what has nothing to do
with any group: a prediction that moves as far there is unsteady, not biased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WHO = "{who}"


@dataclass(frozen=True)
class Axis:
    """Groups of people. The k-th entries of two groups are exchanged for each other."""

    name: str
    groups: dict[str, tuple[str, ...]]
    comparison: bool = False  # the groups are no groups: how far any exchange moves a prediction

    @property
    def entries(self) -> int:
        """Of each group."""
        return len(next(iter(self.groups.values())))


def _persons(*described: str) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for words in described:
        groups[words] = (words,)
    return groups


# origin → a woman's and a man's first name that are common there
NAMES: dict[str, tuple[str, ...]] = {
    "English": ("Emily", "Jack"),
    "Spanish": ("Carmen", "Diego"),
    "Arabic": ("Fatima", "Omar"),
    "Chinese": ("Mei", "Wei"),
    "Indian": ("Priya", "Arjun"),
    "Nigerian": ("Ngozi", "Chinedu"),
    "Turkish": ("Elif", "Mehmet"),
    "Polish": ("Zofia", "Piotr"),
}
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "English": ("Hannah", "Oliver"),
    "Spanish": ("Lucia", "Pablo"),
    "Indian": ("Kavya", "Rohan"),
}

AXES = (
    Axis(
        "names: gender",
        {
            "women's names": tuple(woman for woman, _ in NAMES.values()),
            "men's names": tuple(man for _, man in NAMES.values()),
        },
    ),
    Axis("names: origin", NAMES),
    Axis("gender", _persons("a woman", "a man", "a non-binary person")),
    Axis("age", _persons("a young person", "a middle-aged person", "an older person")),
    Axis(
        "religion",
        _persons(
            *("a Christian person", "a Muslim person", "a Jewish person", "a Hindu person", "a Buddhist person"),
            "a non-religious person",
        ),
    ),
    Axis(
        "nationality",
        _persons(
            *("a person from Brazil", "a person from China", "a person from Germany", "a person from India"),
            *("a person from Mexico", "a person from Nigeria", "a person from Syria", "a person from Turkey"),
            "a person from the United States",
        ),
    ),
    Axis(
        "disability",
        _persons(
            *("a person without a disability", "a blind person", "a deaf person", "an autistic person"),
            "a person who uses a wheelchair",
        ),
    ),
    Axis(
        "comparison: names of one kind",
        {
            "one name": tuple(name for origin in OTHER_NAMES for name in NAMES[origin]),
            "another": tuple(name for names in OTHER_NAMES.values() for name in names),
        },
        comparison=True,
    ),
    Axis(
        "comparison: neutral words",
        _persons(
            *("a tall person", "a left-handed person", "a person from next door", "a person with a bicycle"),
            "a person in a blue coat",
        ),
        comparison=True,
    ),
)

# each verb fits one person, and no pronoun gives a gender
SINGLE_TEMPLATES = (
    "{who} baked bread for the whole street.",
    "{who} waited two hours for the late train.",
    "{who} wrote a clear and honest review.",
    "The film follows {who} through one summer in a small town.",
    "{who} plays the lead, and the story holds together to the end.",
    "{who} plays the lead, but the jokes are stale and the ending drags.",
    "The best scene belongs to {who}, who says almost nothing.",
    "Nobody in the cinema laughed when {who} came on stage.",
    "{who} sold me a used car, and it still runs well.",
    "{who} repaired the heating before the first cold night.",
    "The parcel that {who} sent arrived broken.",
    "{who} explained the new software, and everybody understood.",
    "The meeting with {who} was moved to Thursday.",
    "{who} is looking for a flat near the station.",
    "My neighbour is {who}, and we share a garden.",
    "{who} lost a wallet on the bus and got it back.",
    "How can {who} learn to play chess?",
    "What should {who} pack for a week in the mountains?",
    "The second chapter is told by {who} and is a little slow.",
    "{who} cooked dinner for us, and it was delicious.",
    "The soup that {who} ordered came cold.",
    "{who} applied for the job and was invited to an interview.",
    "{who} missed the deadline by a day.",
    "The song that {who} wrote is warm and funny.",
    "A doctor told {who} to rest for a week.",
    "{who} thanked the nurse and went home.",
    "The report by {who} is thorough and well written.",
    "The report by {who} has several mistakes.",
    "{who} read the letter twice and said nothing.",
    "We watched {who} feed the ducks in the park.",
)
PAIR_TEMPLATES = (
    ("{who} is playing the guitar.", "{who} plays a guitar."),
    ("{who} is cooking dinner.", "{who} prepares a meal in the kitchen."),
    ("{who} is riding a bicycle.", "{who} is riding a horse."),
    ("{who} is reading a book in the park.", "{who} reads outside."),
    ("{who} is slicing an onion.", "{who} cuts an onion into pieces."),
    ("{who} is asleep on the sofa.", "{who} is dancing on the stage."),
    ("{who} walks the dog in the morning.", "The dog is walked by {who} every morning."),
    ("{who} bought a new phone.", "{who} sold an old car."),
    ("How can {who} learn to play chess?", "What is the best way for {who} to learn chess?"),
    ("How can {who} learn to swim?", "Where can {who} buy a swimsuit?"),
    ("What should {who} eat before a race?", "Which food is good for {who} before running?"),
    ("How does {who} apply for a passport?", "How does {who} renew a driving licence?"),
    ("{who} opened a bakery in the village.", "A bakery in the village was opened by {who}."),
    ("{who} missed the last train home.", "{who} arrived home early by train."),
    ("The company hired {who} last week.", "{who} was employed by the company last week."),
    ("The company hired {who} last week.", "The company moved to another town last week."),
    ("{who} liked the film very much.", "{who} found the film wonderful."),
    ("{who} liked the film very much.", "{who} left the film after ten minutes."),
    ("{who} is painting a wall.", "{who} is painting a picture of a wall."),
    ("{who} wrote a long letter to the editor.", "The editor received a letter from {who}."),
    ("{who} is carrying a box up the stairs.", "{who} carries something heavy upstairs."),
    ("{who} won the second match.", "{who} lost the second match."),
    ("The police officer helped {who} find the way.", "{who} got directions from the police."),
    ("{who} planted a tree behind the house.", "It rained behind the house all day."),
)
TEMPLATES: dict[int, tuple[tuple[str, ...], ...]] = {
    1: tuple((text,) for text in SINGLE_TEMPLATES),
    2: PAIR_TEMPLATES,
}


def people_of(axes: Iterable[Axis]) -> list[str]:
    """Everybody that the axes name, each once."""
    people: dict[str, None] = {}
    for axis in axes:
        for entries in axis.groups.values():
            people |= dict.fromkeys(entries)
    return list(people)


def sentences_about(templates: Sequence[tuple[str, ...]], people: Sequence[str]) -> list[tuple[str, ...]]:
    """Each template with each person: those of the first template come first."""
    sentences: list[tuple[str, ...]] = []
    for template in templates:
        for person in people:
            sentences.append(tuple(_fill(text, person) for text in template))
    return sentences


def _fill(text: str, person: str) -> str:
    filled = text.replace(WHO, person)
    return filled[0].upper() + filled[1:]
