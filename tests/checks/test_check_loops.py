#!/usr/bin/python3 -B
"""Goal: tools/check-loops refuses loops whose calls can end the element that they stand on or remember, and no others.

The first two are the loops of defects that attackers found. Each test writes a file and gives its folder to the check."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "tests/shared"))
from checks import check, equal, has, named_tests, run_tap  # noqa: E402

# The end of one load frees views, among them the one that the loop over all loads stands on.
LOADS = """
static void view_free(struct package_view *v)
{
	unlink_used(v);
	free(v);
}

/* The least used go, until what is kept is within its bounds. */
static void trim(struct package_views *all)
{
	struct package_view *prev;

	for (struct package_view *v = all->oldest; v != NULL && all->n > PACKAGE_VIEWS_MAX; v = prev) {
		prev = v->prev; /* alone: an idle view has no waiter */
		if (is_idle(v))
			view_free(v);
	}
}

void package_view_loaded(struct package_view *v, const struct err *e)
{
	struct completions *told = take_waiting(v);

	while (told->first != NULL)
		completion_end(told->first, e);
	trim(v->all);
}

static void end_for(struct package_load *l, int status, const char *why)
{
	struct package_view *v = l->view;

	v->status = status;
	package_load_cancel(v);
	package_load_try_all(l->session->egress);
	package_view_loaded(v, NULL);
}

static void fetch(struct package_load *l)
{
	if (!count_name(l)) {
		end_for(l, 0, "");
		return;
	}
	package_fetch_start(&l->fetch, l->session);
}

void package_load_try_all(struct egress *g)
{
	for (struct package_view *v = package_views_oldest(g); v != NULL; v = v->prev)
		if (v->load != NULL && v->load->state == LOAD_QUEUED && may_fetch(v->load->session))
			fetch(v->load);
}
"""

# A build that ends starts the capture of another one, whose failure frees the build that is next.
BUILDS = """
static void start_next(struct core *c)
{
	c->captures->on_captured(c->captures->arg);
}

static void build_finish(struct build *b, const char *why)
{
	log_info(why, "");
	start_next(b->core);
}

static void supersede(struct core *c, const struct store_build *row)
{
	for (struct build *b = builds_of(c)->running, *next; b != NULL; b = next) {
		next = b->next;
		if (is_superseded(b, row))
			build_finish(b, "the build was superseded by a newer one");
	}
}
"""

ITEMS = """
static void item_free(struct item *x)
{
	LIST_REMOVE(x);
	free(x);
}

static void tell(struct item *x)
{
	x->on_told(x->arg);
}

static bool is_old(const struct item *x)
{
	return x->age > 10;
}

void walk(struct items *all)
{
%s
}
"""


def said(text):
    """The status of the check, and what it says of a file."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "one.c").write_text(text)
        done = subprocess.run([ROOT / "tools/check-loops", folder], capture_output=True, text=True)
        return done.returncode, done.stderr.replace(folder + "/", "")


def refused(text, where):
    status, words = said(text)
    equal(status, 1, words)
    has(words, where)


def taken(text):
    status, words = said(text)
    equal((status, words), (0, ""), text)


def body(lines):
    return ITEMS % "\n".join("\t" + line for line in lines.split("\n"))


def test_the_loop_over_loads():
    refused(LOADS, "v = v->prev) ... fetch()")


def test_the_loop_over_builds():
    refused(BUILDS, "next = b->next; ... build_finish()")


def test_any_variable_and_any_direction():
    for keep in ("kept = x->next", "before = x->prev", "other = x->next_queued", "at = x->older"):
        name = keep.split()[0]
        refused(body(f"for (struct item *x = all->first, *{name}; x != NULL; x = {name}) {{\n\t{keep};\n\ttell(x);\n}}"), keep)


def test_a_call_through_a_pointer():
    refused(body("for (struct item *x = all->first; x != NULL; x = x->next)\n\tx->on_told(x->arg);"), "on_told()")
    refused(body("for (struct item *x = all->first; x != NULL; x = x->next)\n\ttable[x->kind](x);"), "x = x->next")


def test_a_walk_of_list_h():
    refused(body("LIST_WALK(struct item, x, all->first)\n\ttell(x);"), "tell()")
    refused(body("LIST_WALK_BY(struct item, x, all->oldest, newer)\n\ttell(x);"), "tell()")
    refused(body("LIST_WALK_ENDING(struct item, x, all->first)\n\ttell(x);"), "tell()")


def test_an_address_of_a_neighbour():
    refused(body("for (struct item **at = &all->first; *at != NULL; at = &(*at)->next)\n\ttell(*at);"), "tell()")


def test_the_element_itself():
    refused(body("for (struct item *x = all->first; x != NULL; x = x->next)\n\tfree(x);"), "free()")
    refused(body("for (struct item *x = all->first; x != NULL; x = x->next)\n\tLIST_REMOVE(x);"), "LIST_REMOVE()")
    refused(body("for (struct item *x = all->first; x != NULL; x = x->next)\n\titem_free(x);"), "item_free()")


def test_a_call_before_a_condition():
    refused(body("for (struct item *x = all->first; x != NULL; x = x->next) {\n\ttell(x);\n\tif (is_old(x))\n\t\tbreak;\n}"), "tell()")
    refused(body("struct item *x = all->first;\n\nwhile (x != NULL) {\n\tif (is_old(x)) {\n\t\ttell(x);\n\t}\n\tx = x->next;\n}"), "tell()")


def test_the_three_ways_are_taken():
    taken(body("while (all->first != NULL)\n\ttell(all->first);"))  # again at the head
    taken(body("struct item *x = all->first;\n\nwhile (x != NULL) {\n\tif (!is_old(x)) {\n\t\tx = x->next;\n\t\tcontinue;\n\t}\n\ttell(x);\n\tx = all->first;\n}"))
    taken(body("for (struct item *x = all->first; x != NULL; x = x->next)\n\tif (is_old(x))\n\t\tx->marked = true;\nloop_defer(all->loop, &all->end);"))
    taken(body("for (struct item *x = all->first; x != NULL; x = x->next)\n\tif (is_old(x)) {\n\t\ttell(x);\n\t\treturn;\n\t}"))
    taken(body("for (struct item *x = all->first; x != NULL; x = x->next) {\n\tif (!is_old(x))\n\t\tcontinue;\n\ttell(x);\n\tbreak;\n}"))


def test_a_reason_is_taken():
    taken(body("/* alone: tell() ends nothing */\nfor (struct item *x = all->first; x != NULL; x = x->next)\n\ttell(x);"))
    refused(body("/* alone: */\nfor (struct item *x = all->first; x != NULL; x = x->next)\n\ttell(x);"), "tell()")


def test_a_search_is_taken():
    taken(body("struct item *x = all->first;\n\nwhile (x != NULL && !is_old(x))\n\tx = x->next;\nif (x != NULL)\n\ttell(x);"))


def test_the_tree_is_taken():
    done = subprocess.run([ROOT / "tools/check-loops"], capture_output=True, text=True, cwd=ROOT)
    equal(done.returncode, 0, done.stderr)
    check("loops call out" in done.stdout, done.stdout)


if __name__ == "__main__":
    sys.exit(run_tap(named_tests(globals(), sys.argv[1:])))
