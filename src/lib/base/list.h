/* list.h - lists whose links are members of their elements.
 *
 * An element has the members
 *
 *	struct x *next, **link;
 *
 * where link is the address of the pointer to this element: of the head, or of next of the element
 * before. So an element is removed without a search, and without a pointer to its list. link is
 * NULL while the element is in no list. Elements are zeroed at first.
 * An element already in a list must not be put into one: the program ends. A head is a pointer. A
 *queue also has a pointer to the last next (end). It is &head while the queue is empty. Nothing is
 *allocated or freed here.
 *
 * A walk is a loop over a list whose body calls functions that could end elements (HACKING.md,
 * "Lists whose elements end"). With CORDON_STRICT=1 (builds with sanitizers) a walk ends the
 *program with its place in the source, if it continues from an element that its body took out of
 *the list. Otherwise a walk is a plain loop. Lists with links of another form have walks, too, if
 *the code that takes an element out says so by LIST_GONE(). */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#if CORDON_STRICT
/* A walk of this thread. */
struct list_walk {
	const char *file;
	int line;
	bool is_lost;	/* at is in the list no more */
	const void *at; /* the element that the walk continues from. NULL: none */
	struct list_walk *outer;
};

struct list_walk *list_walk_begin(struct list_walk *w);
void list_walk_end(struct list_walk *w);
/* The walk continues from e, still in its list. */
void list_walk_stand(struct list_walk *w, const void *e);
/* Before the walk continues. */
void list_walk_check(const struct list_walk *w);
void list_gone(const void *e);

#define LIST_GONE(e) list_gone(e)
#define LIST_WALK_HELD(x)                                                                      \
	for (struct list_walk x##_held                                                         \
	     __attribute__((cleanup(list_walk_end))) = { .file = __FILE__, .line = __LINE__ }, \
	     *x##_walk = list_walk_begin(&x##_held);                                           \
	     x##_walk != NULL; x##_walk = NULL)
#define LIST_WALK_STAND(x, e) list_walk_stand(x##_walk, e)
#define LIST_WALK_CHECK(x) list_walk_check(x##_walk)
#else
#define LIST_GONE(e) ((void)(e))
#define LIST_WALK_HELD(x)
#define LIST_WALK_STAND(x, e) ((void)0)
#define LIST_WALK_CHECK(x) ((void)0)
#endif

/* for (type *x = head; x != NULL; x = x->member). The body does not take x out of the list, or it
 * leaves the loop. */
#define LIST_WALK_BY(type, x, head, member)                                   \
	LIST_WALK_HELD(x)                                                     \
	for (type *x = (head); LIST_WALK_STAND(x, x), x != NULL; /* NOLINT */ \
	     LIST_WALK_CHECK(x), x = x->member)
#define LIST_WALK(type, x, head) LIST_WALK_BY(type, x, head, next)

/* As above, and the body may take x out of the list and free it, but no other element. */
#define LIST_WALK_ENDING_BY(type, x, head, member)                                    \
	LIST_WALK_HELD(x)                                                             \
	for (type *x = (head), *x##_next = NULL; /* NOLINT */                         \
	     x != NULL && (x##_next = x->member, LIST_WALK_STAND(x, x##_next), true); \
	     LIST_WALK_CHECK(x), x = x##_next)
#define LIST_WALK_ENDING(type, x, head) LIST_WALK_ENDING_BY(type, x, head, next)

/* Puts e before the first. */
#define LIST_PUSH(head, e)                            \
	do {                                          \
		assert((e)->link == NULL);            \
		(e)->next = *(head);                  \
		(e)->link = (head);                   \
		if ((e)->next != NULL)                \
			(e)->next->link = &(e)->next; \
		*(head) = (e);                        \
	} while (0)

/* Take e out of its list. Repeatable. */
#define LIST_REMOVE(e)                               \
	do {                                         \
		if ((e)->link == NULL)               \
			break;                       \
		LIST_GONE(e);                        \
		*(e)->link = (e)->next;              \
		if ((e)->next != NULL)               \
			(e)->next->link = (e)->link; \
		(e)->link = NULL;                    \
		(e)->next = NULL;                    \
	} while (0)

/* Puts e behind the last of a queue. */
#define LIST_APPEND(end, e)                \
	do {                               \
		assert((e)->link == NULL); \
		(e)->next = NULL;          \
		(e)->link = *(end);        \
		**(end) = (e);             \
		*(end) = &(e)->next;       \
	} while (0)

/* Take e out of its queue. Repeatable. */
#define LIST_REMOVE_FROM(end, e)                               \
	do {                                                   \
		if ((e)->link != NULL && *(end) == &(e)->next) \
			*(end) = (e)->link;                    \
		LIST_REMOVE(e);                                \
	} while (0)
