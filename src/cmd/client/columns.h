/* columns.h - rows of text, aligned. Called by every verb that prints a table. Cells come row by
 * row, from the left to the right, and the width of a column is that of its longest cell. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "cmd/base/colour.h"
#include "lib/base/own.h"

#define COLUMNS_MAX 12
#define COLUMNS_CELL_MAX 400 /* bytes of one cell. Longer ones are cut */

struct columns {
	size_t columns;
	const char *heads[COLUMNS_MAX];
	/* Row by row: the cell of column c in row r has the place r * columns + c. */
	size_t width[COLUMNS_MAX];
	struct columns_cell {
		char *text; /* escaped */
		size_t width;
		enum colour colour;
	} * cells; /* row by row. Owned */
	size_t n, room;
};

/* heads are borrowed for as long as the table lives. n is at most COLUMNS_MAX (asserted). */
void columns_init(struct columns *t, const char *const *heads, size_t n);
void columns_release(struct columns *t);
#define OWN_COLUMNS __attribute__((cleanup(columns_release))) struct columns

/* The next cell, row by row. Escaped here. Without memory the program ends. */
void columns_add(struct columns *t, const char *fmt, ...) PRINTF(2, 3);

/* Colour the last added cell, where the table is printed on a terminal. */
void columns_paint(struct columns *t, enum colour c);

size_t columns_rows(const struct columns *t);
/* Print the heads and at most max rows, each no wider than columns (0: any width). */
void columns_print(const struct columns *t, size_t max, size_t columns, FILE *to);
