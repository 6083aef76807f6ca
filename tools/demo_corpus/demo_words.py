"""The vocabulary and sentence patterns of the demonstration corpus: train's, and those held out for dev and test."""

from __future__ import annotations

import re

Synonyms = tuple[str, ...]  # wordings of one meaning


def listed(text: str, separator: str = ",") -> list[str]:
    return [item.strip() for item in text.split(separator)]


def blocks(text: str) -> list[list[str]]:
    """A line and the indented ones below it make a block; a leading bar continues the line before."""
    lines = text.strip().replace("\n    |", " |")
    return [listed(block, "\n") for block in re.split(r"\n(?! )", lines)]


def groups(text: str) -> list[Synonyms]:
    return [tuple(listed(group, "/")) for group in listed(text, ";")]


# --- sentiment: tables

# Opinion words that fit any subject, by polarity.
OPINIONS: dict[str, dict[int, list[str]]] = {
    "train": {
        -2: listed("terrible, awful, horrible, disastrous, appalling, wretched, shocking, pathetic, hideous"),
        -1: listed("bad, weak, disappointing, unpleasant, poor, annoying, unimpressive, below par, inferior"),
        0: listed("average, ordinary, unremarkable, standard, typical, as expected"),
        1: listed("good, nice, pleasant, enjoyable, decent, likeable, attractive, solid, admirable"),
        2: listed("excellent, wonderful, brilliant, superb, outstanding, amazing, terrific, splendid"),
    },
    "held": {
        -2: listed("dreadful, atrocious, abysmal, horrendous, ghastly"),
        -1: listed("underwhelming, uninspired, unsatisfying, flawed, forgettable"),
        0: listed("middling, so-so, run-of-the-mill, nothing special"),
        1: listed("agreeable, satisfying, appealing, worthwhile, fine"),
        2: listed("magnificent, marvellous, phenomenal, sublime, fantastic"),
    },
}
# A domain: wholes | their parts; then opinion words that fit only it, of polarity -2 | -1 | 1 | 2.
DOMAINS: dict[str, list[list[str]]] = {
    "train": blocks("""
film, novel, comedy, sequel | plot, ending, first half, main story
  mind-numbing, laughable | dull, predictable, shallow | engaging, funny, touching | gripping, captivating
lunch, breakfast, picnic, set menu | soup, dessert, main course, salad
  inedible, revolting | bland, greasy, stale | tasty, fresh, filling | delicious, mouth-watering
hotel, hostel, flat, cabin | bedroom, bathroom, lobby, kitchen
  filthy, uninhabitable | noisy, cramped, shabby | cosy, comfortable, clean | luxurious, heavenly, gorgeous
phone, laptop, camera, printer | battery, display, case, charger
  useless, unfit for use | unreliable, clumsy, flimsy | handy, dependable, robust | flawless, perfect
lecture, course, seminar, guided tour | introduction, second hour, discussion, final talk
  unbearable, maddening | confusing, boring, vague | clear, informative, interesting | inspiring, fascinating
garage, clinic, bank, delivery firm | helpline, booking desk, front office, website
  hopeless, incompetent | careless, unhelpful, slow | helpful, polite, prompt | first-class, impeccable
"""),
    "held": blocks("""
thriller, stage play, memoir, cartoon | script, dialogue, storyline, finale
  excruciating, unwatchable | tedious, plodding, formulaic | entertaining, witty | spellbinding, riveting
dinner, buffet, banquet, barbecue | starter, steak, pudding, side dish
  nauseating, disgusting | tasteless, soggy, overcooked | flavoursome, appetising | scrumptious, exquisite
guesthouse, campsite, resort, villa | shower room, terrace, dining room, entrance hall
  vile, disgusting | dingy, draughty, run-down | welcoming, snug, tidy | idyllic, magical
tablet, headset, vacuum cleaner, smartwatch | speaker, touchpad, control panel, power button
  worthless, unusable | sluggish, fiddly, glitchy | practical, sturdy, user-friendly | faultless, ingenious
workshop, webinar, podcast, keynote | question session, slide show, opening speech, last part
  torturous, insufferable | muddled, long-winded | instructive, thoughtful, lively | mesmerising, electrifying
plumbing company, dental practice, airline, estate agency | call centre, reception, complaints team
  disgraceful, scandalous | sloppy, inattentive, rude | attentive, courteous, efficient | world-class
"""),
}
# Nouns of strong blame and strong praise.
VERDICTS: dict[str, dict[int, list[str]]] = {
    "train": {-2: listed("disaster, nightmare, catastrophe, mess"), 2: listed("triumph, delight, gem, dream")},
    "held": {-2: listed("shambles, fiasco, travesty"), 2: listed("joy, revelation, marvel")},
}
# Whole clauses of opinion.
REMARKS: dict[str, dict[int, list[str]]] = {
    "train": {
        -2: listed("I want my money back, I hated it, nobody should waste a penny on it, I was furious"),
        -1: listed("I expected more, I would not choose it again, it did not suit me, I had my doubts"),
        1: listed("I would choose it again, it was worth the price, I liked it, it cheered me up"),
        2: listed("I loved it, I cannot praise it enough, it made my whole year, I was thrilled"),
    },
    "held": {
        -2: listed("everyone ought to stay away, we demanded a refund, it made our blood boil"),
        -1: listed("it failed to live up to its name, we shall try another next time, it left us cold"),
        1: listed("it grew on us, we came away with a smile, we were glad of it"),
        2: listed("we adored it, it blew us away, we were over the moon"),
    },
}
# How opinion words are strengthened, softened, negated and joined.
FORMS: dict[str, dict[str, list[str]]] = {
    "train": {
        "open": ["", "", "", "honestly, ", "in my opinion, "],
        "be": ["was"],
        "very": listed("very, really, extremely, incredibly"),
        "utterly": listed("absolutely, simply"),
        "a bit": listed("a bit, slightly, rather"),
        "fairly": listed("fairly, quite, pretty"),
        "not": listed("was not, was hardly, was never, was not really"),
        "emphatic": listed("was never less than, was nothing short of"),
        "most": ["could not have been more"],
        "saved": listed("was {a} but saved by a {b}, was {a} but lifted by a {b}"),
        "spoiled": listed("was {a} but spoiled by a {b}, was {a} but let down by a {b}"),
        "and": ["{a} and {b}", "{a}, and {b}"],
        "but": ["{a}, but {b}", "{a}, yet {b}", "although {a}, {b}", "{b}, although {a}"],
        "tie": ["{a} and {b}, so it evens out", "I cannot decide: {a} and {b}"],
        "flat": [
            "the {it} was {flat}",
            "in my opinion, the {it} was {flat}",
            "the {it} was neither {a} nor {b}",
            "the {it} was partly {a} and partly {b}",
            "I read about the {it} in June",
        ],
    },
    "held": {
        "open": ["", "", "", "all things considered, ", "to be frank, ", "my sister thought "],
        "be": listed("was, seemed, proved"),
        "very": listed("very, truly, remarkably"),
        "utterly": listed("utterly, downright"),
        "a bit": listed("a little, somewhat, a touch"),
        "fairly": listed("reasonably, moderately"),
        "not": listed("wasn't, was not, was scarcely, was by no means"),
        "emphatic": ["was nothing less than", "was, in a word,"],
        "most": ["could scarcely be more"],
        "saved": ["seemed {a} at first, only to be redeemed by a {b}", "was {a} until rescued by a {b}"],
        "spoiled": ["seemed {a} at first, only to be ruined by a {b}", "was {a} until undermined by a {b}"],
        "and": ["{a}; what is more, {b}", "{a}; besides, {b}"],
        "but": ["{a}; still, {b}", "even though {a}, {b}", "{b}, even if {a}", "true, {a}, but {b}"],
        "tie": ["{a} while {b}, which leaves us undecided", "{a}; {b}; on balance, a draw"],
        "flat": [
            "all told, the {it} seemed {flat}",
            "my sister thought the {it} {flat}",
            "the {it} wasn't exactly {a}, nor was it {b}",
            "the {it} seemed {a} and {b} in equal measure",
            "my cousin mentioned the {it} on Tuesday",
        ],
    },
}

# --- paraphrase: tables

# What may fill a slot; "/" joins wordings of one meaning, so swapping them keeps a question the same.
FILLERS: dict[str, dict[str, list[Synonyms]]] = {
    "train": {
        "job": groups(
            "doctor/physician; lawyer/attorney; teacher/schoolteacher; fireman/firefighter; nurse; cook/chef;"
            "soldier/member of the army; farmer; shop assistant/sales clerk; priest/clergyman"
        ),
        "pet": groups("puppy/young dog; kitten/young cat; rabbit/bunny; pig/hog; hen/chicken; parrot; frog"),
        "city": groups(
            "Paris/the French capital; London/the British capital; Rome/the Italian capital; New York/NYC;"
            "Berlin; Madrid/the Spanish capital; Dublin/the Irish capital; Chicago; Boston"
        ),
        "food": groups("pasta/noodles; sweets/candy; chips/fries; rice; beans; fruit; potatoes/spuds; ham"),
        "device": groups(
            "phone/mobile; laptop/notebook computer; TV/television; fridge/refrigerator; car/automobile;"
            "bicycle/bike; camera; radio; printer"
        ),
        "n": groups("two/2; three/3; five/5; seven/7; nine/9; ten/10; eleven/11; twenty/20; forty/40"),
        "ill": groups("headache/sore head; fever/high temperature; cough; tummy ache/upset stomach; rash"),
        "kin": groups("father/dad; mother/mum; boss/employer; flatmate/roommate; son; wife; uncle"),
        "tongue": groups("French; Spanish; German; Italian; Russian; English; Polish"),
    },
    "held": {
        "job": groups(
            "policeman/cop; pharmacist/chemist; author/writer; stewardess/flight attendant; pilot; judge;"
            "barber/hairdresser; builder/construction worker"
        ),
        "pet": groups("lamb/baby sheep; calf/baby cow; pony/small horse; goose; tortoise; fox; squirrel"),
        "city": groups(
            "Tokyo/the capital of Japan; Cairo/the capital of Egypt; Athens/the capital of Greece; Sydney;"
            "Vienna; Oslo/the capital of Norway; Toronto"
        ),
        "food": groups("prawns/shrimps; biscuits/cookies; maize/corn; mushrooms; spinach; plums; turkey"),
        "device": groups("vacuum cleaner/hoover; lorry/truck; motorbike/motorcycle; torch/flashlight"),
        "n": groups("four/4; six/6; eight/8; twelve/12; fifteen/15; thirty/30; fifty/50"),
        "ill": groups("flu/influenza; insomnia/sleeplessness; hypertension/high blood pressure; asthma"),
        "kin": groups("grandfather/grandpa; grandmother/granny; landlord/property owner; aunt; nephew"),
        "tongue": groups("Japanese; Arabic; Dutch; Portuguese; Swedish"),
    },
}
# A block is a family of questions about the same things; each line is one question in several wordings.
QUESTIONS: dict[str, list[list[str]]] = {
    "train": blocks("""
Does a {job1} earn more than a {job2}? | Is a {job1} better paid than a {job2}?
    | Does a {job2} earn less than a {job1}?
  Does a {job1} work longer hours than a {job2}?
    | Is the working day of a {job1} longer than that of a {job2}?
Can a {pet1} chase a {pet2}? | Is it possible for a {pet1} to run after a {pet2}?
    | Can a {pet2} be chased by a {pet1}?
  Can a {pet1} scare a {pet2}? | Is it possible for a {pet1} to frighten a {pet2}?
    | Can a {pet2} be scared by a {pet1}?
How do I get from {city1} to {city2} by train? | Which trains run to {city2} from {city1}?
  How do I get from {city1} to {city2} by bus? | Which coaches go to {city2} from {city1}?
  How much is a train ticket from {city1} to {city2}? | What is the rail fare to {city2} from {city1}?
Is {city1} bigger than {city2}? | Does {city1} have more people than {city2}?
    | Is {city2} smaller than {city1}?
  Is {city1} warmer than {city2}? | Does {city1} have hotter weather than {city2}?
    | Is {city2} colder than {city1}?
How long should I boil {food}? | How many minutes must {food} stay in boiling water?
  How long can I store {food}? | For how many days can {food} be kept?
Why do some people like {food}? | What makes {food} popular with some people?
  Why do some people not like {food}? | For what reason is {food} disliked by some people?
Would you trust a {device} that is under {n} years old? | Do you rely on a {device} of less than {n} years?
  Would you trust a {device} that is over {n} years old? | Do you rely on a {device} of more than {n} years?
How can I cure a {ill} without medicine? | What gets rid of a {ill} if I do not want any pills?
  How can I cure a {ill} with medicine? | Which pills get rid of a {ill}?
  What causes a {ill}? | Why do people get a {ill}?
Who will win the football final in {city}? | Which team is going to be the champion at the final in {city}?
  Who won the football final in {city}? | Which team became the champion at the final in {city}?
How can I learn {tongue} in {n} months? | What is the best way to pick up {tongue} within {n} months?
  How can I teach {tongue} in {n} months?
    | What is the best way to instruct others in {tongue} within {n} months?
How do I lose {n} kilos? | What should I do to get {n} kilos lighter?
  How do I gain {n} kilos? | What should I do to get {n} kilos heavier?
Is it safe to live alone in {city}? | In {city}, are you out of danger if you live by yourself?
  Is it cheap to live alone in {city}? | In {city}, do you spend little if you live by yourself?
What should I check before I buy a used {device}?
    | What must I look at prior to purchasing a second-hand {device}?
  What should I check before I sell a used {device}?
    | What must I look at prior to parting with a second-hand {device}?
What does a {job} do all day? | What is the daily work of a {job} like?
  How do I become a {job}? | What does it take to start working as a {job}?
  How do I find a good {job}? | Where should I look for a {job} I can trust?
What if my {kin1} does not trust my {kin2}? | What should I do when my {kin1} has no faith in my {kin2}?
  What if my {kin1} owes my {kin2} money? | What should I do when my {kin1} is in debt to my {kin2}?
Why does my {device} make a strange noise? | What is the reason for the odd sound from my {device}?
  Why does my {device} have a strange smell? | What is the reason for the odd odour from my {device}?
Can {food} harm a {pet}? | Might {food} be bad for a {pet}?
  Can {food} help a {pet} grow? | Might {food} make a {pet} bigger?
Where can I buy cheap {food} in {city}? | Which shop in {city} sells {food} at a low price?
  Where can I eat good {food} in {city}? | Which restaurant in {city} serves tasty {food}?
Should I bring an umbrella to {city} in May? | Is rain likely in {city} in May?
  Should I bring sun cream to {city} in May? | Is strong sun likely in {city} in May?
Can my {kin} drive with a {ill}? | Is my {kin} allowed at the wheel with a {ill}?
  Can my {kin} swim with a {ill}? | Is my {kin} allowed in the water with a {ill}?
How do I remove a scratch from my {device}? | What makes a scratch on my {device} go away?
  How do I connect a keyboard to my {device}? | What links a keyboard and my {device}?
What present should I give my {kin}? | Which gift would make my {kin} glad?
  What advice should I give my {kin}? | Which words of wisdom does my {kin} need?
Who taught your {kin} to speak {tongue}? | From whom did your {kin} learn {tongue}?
  Who told your {kin} to stop speaking {tongue}? | By whom was your {kin} forbidden to talk in {tongue}?
How tall does a {pet} get in {n} weeks? | What height does a {pet} reach within {n} weeks?
  How heavy does a {pet} get in {n} weeks? | What weight does a {pet} reach within {n} weeks?
Do I need a visa for {city}? | Must I apply for a visa if I travel to {city}?
  Do I need warm clothes in {city}? | Must I wear something thick if I travel to {city}?
How often should I feed my {pet}? | How many times a day does my {pet} need food?
  How often should I wash my {pet}? | How many times a month does my {pet} need a bath?
"""),
    "held": blocks("""
Is a {job1} happier than a {job2}? | Does a {job1} enjoy life more than a {job2}?
    | Is a {job2} less happy than a {job1}?
  Is a {job1} braver than a {job2}? | Does a {job1} show more courage than a {job2}?
    | Is a {job2} less brave than a {job1}?
Would a {pet1} attack a {pet2}? | Would you expect a {pet1} to assault a {pet2}?
    | Would a {pet2} be attacked by a {pet1}?
  Would a {pet1} follow a {pet2}? | Would you expect a {pet1} to walk behind a {pet2}?
    | Would a {pet2} be followed by a {pet1}?
How long is the flight from {city1} to {city2}?
    | How many hours does a plane to {city2} take when leaving {city1}?
  How long is the walk from {city1} to {city2}?
    | How many hours does it take to get to {city2} on foot from {city1}?
  Who first flew from {city1} to {city2}? | Which pilot was the earliest to fly to {city2} from {city1}?
Did {city1} host more Olympics than {city2}? | Were the Games held more often in {city1} than in {city2}?
  Will {city1} host more Olympics than {city2}?
    | Are the Games going to be in {city1} more often than in {city2}?
  Did {city1} build a metro sooner than {city2}?
    | Was an underground railway opened in {city1} ahead of {city2}?
Could I freeze {food}? | Is it okay to put {food} in the freezer?
  Could I fry {food}? | Is it okay to prepare {food} in hot oil?
  Could I mail {food} to a friend? | Is it feasible to send {food} to a pal by post?
Are {food} and milk a healthy breakfast? | Does it benefit me to begin the day with milk and {food}?
  Are {food} and milk an unhealthy breakfast?
    | Does it damage me to begin the day with milk and {food}?
Has anyone hired a {device} for {n} days? | Did somebody ever rent a {device} over a period of {n} days?
  Has anyone lost a {device} for {n} days? | Did somebody ever misplace a {device} over a period of {n} days?
Is {ill} ever contagious? | Could I catch {ill} from somebody else?
  Is {ill} ever hereditary? | Could I inherit {ill} from an ancestor?
  Is {ill} ever curable? | Could anybody fully recover from {ill}?
When did the war get to {city}? | In which year did the fighting arrive in {city}?
  Who ruled {city} during the war? | Which person was in power in {city} while the fighting went on?
Should a person of {n} study {tongue}? | Would it be wise at the age of {n} to take {tongue} classes?
  Should a person of {n} avoid {tongue}? | Would it be wise at the age of {n} to stay clear of {tongue}?
Could a hotel refuse guests with a {pet}? | Are hotels permitted to turn away visitors who have a {pet}?
  Could a hotel charge guests with a {pet} extra?
    | Are hotels permitted to bill visitors more if they have a {pet}?
Where may tourists park overnight in {city}?
    | Which places in {city} let visitors leave a vehicle until morning?
  Where may tourists dine overnight in {city}? | Which places in {city} serve visitors meals until morning?
How do I clean the inside of a {device}? | Which method removes dirt from the interior of a {device}?
  How do I insure a {device} against theft? | Which policy covers the loss of a {device} to burglars?
Why did you quit being a {job}? | What made you give up your career as a {job}?
  Why did you not quit being a {job}? | What made you keep up your career as a {job}?
  Which uniform does a {job} have? | What is the usual outfit of a {job}?
How do I tell my {kin1} that my {kin2} lied? | How could I inform my {kin1} of a lie by my {kin2}?
  How do I tell my {kin1} that my {kin2} is sick? | How could I inform my {kin1} of an illness of my {kin2}?
Do vets recommend a jab for a {pet}? | Is an injection for a {pet} something animal clinics advise?
  Do vets recommend a collar for a {pet}? | Is a neck strap for a {pet} something animal clinics advise?
"""),
}

# --- similarity: tables

# A block is a topic: who, did, what. All combinations make sense, and each verb form is both past tense
# and participle, so that it serves active and passive sentences alike.
SCENES: dict[str, list[list[str]]] = {
    "train": blocks("""
a chef / a cook; a mother / a mum; a boy / a lad; a waitress
  sliced / cut up; washed / rinsed; burned / scorched; weighed
  the potatoes / the spuds; the carrots; the chicken / the poultry; the fish
a gardener / a groundskeeper; a neighbour / the man next door; some children / some kids; a monk
  planted / put in; watered / sprinkled; dug up / uprooted; trimmed / pruned
  the roses; the bushes / the shrubs; a sapling / a young tree; the hedge
a policeman / a police officer; a pedestrian / a person on foot; a young woman / a young lady; a drunk
  stopped / halted; photographed; pushed / shoved; inspected
  a car / an automobile; a bicycle / a bike; a taxi / a cab; a van
a rock band / a music group; a singer / a vocalist; an orchestra; a student
  performed / played; recorded / taped; praised / lauded; rearranged
  a song / a tune; a lullaby; a symphony; a hymn
a secretary / an office assistant; the boss / the manager; a lawyer / an attorney; an accountant
  mailed / posted; copied / duplicated; lost / mislaid; signed
  a letter; a contract / an agreement; an invoice / a bill; a report
some workers / some labourers; a company / a firm; some volunteers / some unpaid helpers; a widow
  built / constructed; knocked down / demolished; repaired / fixed; painted
  a house / a home; a bridge; a church / a chapel; a tower
the president / the head of state; parliament / the legislature; the opposition; the mayor
  rejected / turned down; approved / backed; delayed / put off; leaked
  the budget / the spending plan; the tax law; the treaty / the pact; the reform
some thieves / some robbers; a gang / a criminal band; a pickpocket; a masked person
  grabbed / seized; damaged / harmed; sold / peddled; buried
  a painting / a canvas; the jewels / the gems; a statue / a sculpture; some coins
a dog / a hound; a cat; a fox; a wolf
  chased / pursued; sniffed / smelled; scared / frightened; guarded / protected
  a rabbit / a bunny; a hen; a duck; a mouse
a teacher / a schoolteacher; a pupil / a schoolchild; a professor; a tutor
  explained / clarified; checked / looked over; solved / worked out; ignored
  the puzzle / the riddle; the exercise / the task; the equation; the quiz
a doctor / a physician; a nurse; a soldier / a member of the army; a rescuer
  examined / looked at; treated / cared for; carried; comforted / consoled
  a patient / a sick person; a baby / an infant; an injured woman / a wounded woman; a refugee
a tailor / a dressmaker; a bride; a washerwoman / a laundress; a schoolgirl
  stitched / sewed; ironed / pressed; dyed / coloured; borrowed
  a shirt; the trousers / the pants; a coat / an overcoat; a gown
a reporter / a journalist; a publisher; a spokesman / a representative; a minister
  denied / disputed; announced / made public; misunderstood; repeated
  the rumour / the gossip; the result / the outcome; the merger; the scandal
some hikers / some walkers; a guide; a forest ranger / a park warden; a photographer
  climbed / scaled; avoided / kept away from; measured / surveyed; reached
  the mountain / the peak; the rock; the glacier; the waterfall
"""),
    "held": blocks("""
a sailor / a seaman; a princess / a king's daughter; a pirate
  polished / shined; bought / purchased; insured
  the yacht / the sailing boat; the telescope; the harpoon
a director / a film-maker; an actress; some critics / some reviewers
  financed / funded; mocked / ridiculed; attended
  the musical; the movie / the motion picture; the circus
some scientists / some researchers; a millionaire / a wealthy gentleman; the air force
  tested / tried out; designed / devised; wrecked / ruined
  a robot / an android; a rocket / a spacecraft; a parachute
the judge / the magistrate; a detective / an investigator; the hostage
  questioned / interrogated; freed / released; kissed
  the suspect / the accused; the nun; the twins
a farmer / an agriculturist; a shepherd; a vet
  fed; counted / tallied; vaccinated / inoculated
  the cattle / the cows; the geese; the piglets / the little pigs
a customer / a shopper; a tourist / a holidaymaker; a grandmother / a granny
  admired; returned / sent back; wrapped / packed up
  a necklace; a rug / a carpet; some spectacles / some glasses
a storm / a tempest; an earthquake; a wildfire
  destroyed / devastated; spared; threatened / endangered
  the village / the hamlet; the harbour / the port; the vineyard
some hackers / some cyber criminals; a programmer / a software developer; a teenager / an adolescent
  blocked / shut down; updated / upgraded; advertised / promoted
  the website / the internet site; the video game; the spreadsheet
a janitor / a caretaker; some prisoners / some inmates; a landlady
  swept; decorated / adorned; locked / bolted
  the corridor / the hallway; the bathroom / the washroom; the garden shed
"""),
}
# Unimportant details: when, and in what manner.
DETAILS: dict[str, dict[str, list[Synonyms]]] = {
    "train": {
        "when": groups("on Monday; last week; this morning / earlier today; in spring / in springtime"),
        "how": groups("quickly / rapidly; finally / eventually; secretly"),
    },
    "held": {
        "when": groups("on Friday; last month; at dawn / at daybreak; in autumn / in the fall"),
        "how": groups("suddenly / abruptly; reportedly / allegedly; repeatedly"),
    },
}
STATEMENTS: dict[str, list[str]] = {
    "train": [
        "{who} {how} {did} {what} {when}",
        "{when} {who} {how} {did} {what}",
        "{what} {was} {how} {did} by {who} {when}",
    ],
    "held": [
        "{who} had {how} {did} {what} {when}",
        "{when}, {what} had {how} been {did} by {who}",
        "it was {who} that {how} {did} {what} {when}",
    ],
}
