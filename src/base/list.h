/* list.h - lists whose links are members of their elements.
 *
 * An element has the members
 *
 *	struct x *next, **link;
 *
 * where link is the address of the pointer to this element: of the head, or of next of the element
 * before. So an element is removed without a search, and without a pointer to its list. link is
 * NULL while the element is in no list; elements are zeroed at first.
 * An element that is in a list already must not be put into one: the program ends. A head is a
 *pointer; a queue also has a pointer to the last next (end), which is &head while the queue is
 *empty. Nothing is allocated or freed here. */
#pragma once

#include <assert.h>
#include <stddef.h>

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

/* Takes e out of its list. Repeatable. */
#define LIST_REMOVE(e)                               \
	do {                                         \
		if ((e)->link == NULL)               \
			break;                       \
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

/* Takes e out of its queue. Repeatable. */
#define LIST_REMOVE_FROM(end, e)                               \
	do {                                                   \
		if ((e)->link != NULL && *(end) == &(e)->next) \
			*(end) = (e)->link;                    \
		LIST_REMOVE(e);                                \
	} while (0)
