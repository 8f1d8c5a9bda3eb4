/* Goal: in lanes.h owners take turns, however many items each has and in which order they came. */
#include "lib/base/lanes.h"

#include <limits.h>
#include <stdio.h>

#include "lib/base/own.h"
#include "test.h"

struct one {
	struct lane_item item; /* the first member */
	char owner;
};

static struct lanes l;
static struct one all[64];
static unsigned n;

static struct one *add(char owner)
{
	struct one *o = &all[n++];

	o->owner = owner;
	lanes_add(&l, (char[]){ owner, '\0' }, &o->item);
	return o;
}

static void add_all(const char *owners)
{
	for (; *owners != '\0'; owners++)
		(void)add(*owners);
}

static struct one *serve(unsigned most)
{
	struct lane_item *i = lanes_next(&l, most);

	if (i != NULL)
		lanes_serve(&l, i);
	return (struct one *)i;
}

static void end_all(void)
{
	for (unsigned i = 0; i < n; i++)
		lanes_remove(&l, &all[i].item);
	CHECK(l.first == NULL && l.waiting == 0 && l.at_work == 0);
}

/* Serves and ends one item after the other. */
static void order_is(const char *owners)
{
	for (; *owners != '\0'; owners++) {
		struct one *o = serve(UINT_MAX);

		CHECK(o != NULL && o->owner == *owners);
		lanes_remove(&l, &o->item);
	}
}

static void owners_take_turns(void)
{
	add_all("aaaaaaabbc");
	order_is("c"); /* the newest of those that were never served */
	add_all("d");
	order_is("badbaaaaaa");
	end_all();
}

static void items_of_an_owner_keep_their_order(void)
{
	add_all("aaaa");
	for (unsigned i = 0; i < 4; i++)
		CHECK(serve(UINT_MAX) == &all[i]);
	CHECK(serve(UINT_MAX) == NULL);
	end_all();
}

/* Work of a few items may take long. */
static void owners_with_less_at_work_come_first(void)
{
	add_all("aaa");
	(void)serve(UINT_MAX);
	(void)serve(UINT_MAX);
	add_all("bbb");
	CHECK(serve(UINT_MAX)->owner == 'b' && serve(UINT_MAX)->owner == 'b');
	lanes_remove(&l, &all[0].item);
	CHECK(serve(UINT_MAX)->owner == 'a');
	CHECK(l.waiting == 1 && l.at_work == 4);
	end_all();
}

static void an_owner_has_its_most(void)
{
	const struct lanes_room room = { .all = 3, .owner = 2, .spare = 2 };

	add_all("aaabbbccd");
	for (unsigned i = 0; i < 3; i++)
		CHECK(serve(lanes_most(&room, l.at_work)) != NULL);
	CHECK(lanes_most(&room, 3) == 1 && lanes_most(&room, 4) == 1 && lanes_most(&room, 5) == 0);
	while (serve(lanes_most(&room, l.at_work)) != NULL)
		;
	CHECK(l.at_work <= 5);
	end_all();
}

/* It has nothing in its lane each time, and the others wait since long. */
static void an_owner_that_asks_again_is_not_always_first(void)
{
	unsigned others = 0;

	add_all("aabb");
	for (unsigned i = 0; i < 8; i++) {
		struct one *o;

		(void)add('c');
		o = serve(UINT_MAX);
		others += o->owner != 'c';
		lanes_remove(&l, &o->item);
	}
	CHECK(others == 4);
	end_all();
}

static void items_move_to_other_lanes(void)
{
	const struct one *last[2] = { NULL };
	struct lanes to = { 0 };
	struct lane_item *i;

	add_all("aabab");
	lanes_serve(&l, &all[0].item); /* stays */
	lanes_move(&l, &to);
	CHECK(l.waiting == 0 && l.at_work == 1 && to.waiting == 4 && to.at_work == 0);
	while ((i = lanes_next(&to, UINT_MAX)) != NULL) { /* each owner's in their order */
		const struct one *o = (struct one *)i;

		CHECK(last[o->owner - 'a'] == NULL || o > last[o->owner - 'a']);
		last[o->owner - 'a'] = o;
		lanes_remove(&to, i);
	}
	CHECK(last[0] == &all[3] && last[1] == &all[4] && to.first == NULL);
	end_all();
}

static void removal_is_repeatable(void)
{
	struct one *a = add('a'), *b = add('a');

	lanes_remove(&l, &a->item);
	lanes_remove(&l, &a->item);
	CHECK(l.waiting == 1 && lanes_each(&l, NULL) == &b->item &&
	      lanes_each(&l, &b->item) == NULL);
	end_all();
}

TEST_MAIN({ "owners take turns", owners_take_turns },
	  { "items of an owner keep their order", items_of_an_owner_keep_their_order },
	  { "owners with less at work come first", owners_with_less_at_work_come_first },
	  { "an owner has its most", an_owner_has_its_most },
	  { "an owner that asks again is not always first",
	    an_owner_that_asks_again_is_not_always_first },
	  { "items move to other lanes", items_move_to_other_lanes },
	  { "removal is repeatable", removal_is_repeatable })
