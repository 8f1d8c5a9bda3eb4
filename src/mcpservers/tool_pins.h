/* tool_pins.h - the definitions of a server's tools as they were first seen. A server that changes
 * a description after a person has approved the tool (a "rug pull") is found by that. Pure. */
#pragma once

#include "tool_list.h"

#define TOOL_PINS_MAX 2000
#define TOOL_PINS_NAMED 200 /* characters of names that are reported */

struct tool_pin {
	char name[TOOL_NAME_MAX + 1];
	uint8_t hash[SHA256_SIZE];
	bool changed; /* it has another definition now */
	bool kept;    /* the owner's: it is in the store */
};

struct tool_pins {
	struct tool_pin *pins; /* owned */
	size_t n, size;
};

/* Compares a list with what was seen before, and takes in what is new. Returns how many tools have
 * changed since the last call; ret_names has some of their names. keep: a changed tool stays
 * marked, else its new definition is the one that counts from now on. */
size_t tool_pins_see(struct tool_pins *p, const struct tool_list *l, bool keep,
		     char ret_names[TOOL_PINS_NAMED]);
/* Takes in one that was seen before. */
void tool_pins_put(struct tool_pins *p, const char *name, const uint8_t hash[SHA256_SIZE]);
/* Has it another definition than at first, or was there no room to remember it? */
bool tool_pins_changed(const struct tool_pins *p, const char *name);
void tool_pins_release(struct tool_pins *p);
