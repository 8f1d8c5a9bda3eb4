/* columns.c - see columns.h. Cells are stored in one array, row by row, and the widths follow
 * the longest cell. Nothing is printed before columns_print(), so all rows of a table must fit
 * into memory. Callers bound their number. */
#include "cmd/client/columns.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/show.h"

/* Widths begin with those of the heads and only grow. */
void columns_init(struct columns *t, const char *const *heads, size_t n)
{
	assert(n > 0 && n <= COLUMNS_MAX);
	*t = (struct columns){ .columns = n };
	for (size_t i = 0; i < n; i++) {
		t->heads[i] = heads[i];
		t->width[i] = strlen(heads[i]);
	}
}

void columns_release(struct columns *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i].text);
	free(t->cells);
	*t = (struct columns){ 0 };
}

/* A table that cannot be completed must not be printed as a shorter one. So the program ends,
 * with the exit code of a failure. */
static void columns_must(const void *memory)
{
	if (memory != NULL)
		return;
	(void)fprintf(stderr, "cordon: out of memory\n");
	exit(125);
}

/* Escaped once, here. The width is that of the escaped text, so columns fit even with odd bytes.
 * A cell longer than COLUMNS_CELL_MAX is cut before and after the escape. */
void columns_add(struct columns *t, const char *fmt, ...)
{
	char raw[COLUMNS_CELL_MAX], text[COLUMNS_CELL_MAX];
	struct columns_cell cell;
	size_t column;
	va_list ap;

	assert(t->columns > 0);
	column = t->n % t->columns;
	va_start(ap, fmt);
	(void)vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	cell.colour = COLOUR_NONE;
	cell.width = show_escape(raw, text, sizeof(text));
	cell.text = strdup(text);
	columns_must(cell.text);
	if (t->n == t->room) {
		t->room = t->room == 0 ? 64 : t->room * 2;
		t->cells = reallocarray(t->cells, t->room, sizeof(*t->cells));
		columns_must(t->cells);
	}
	if (cell.width > t->width[column])
		t->width[column] = cell.width;
	t->cells[t->n++] = cell;
}

/* The colour is no part of the text, so it does not count for the width. */
void columns_paint(struct columns *t, enum colour c)
{
	assert(t->n > 0);
	t->cells[t->n - 1].colour = c;
}

size_t columns_rows(const struct columns *t)
{
	return t->columns == 0 ? 0 : t->n / t->columns;
}

/* The length in bytes of this many characters. */
static size_t bytes_of(const char *text, size_t columns)
{
	size_t n = 0;

	while (text[n] != '\0' && columns > 0) {
		n++;
		while (((unsigned char)text[n] & 0xc0) == 0x80)
			n++;
		columns--;
	}
	return n;
}

/* cells: those of the row. NULL: the heads. The last column has no padding, so a line never ends
 * with spaces. A cut line ends within its last cell that fits. */
static void print_row(const struct columns *t, const char *const *texts, const size_t *widths,
		      const struct columns_cell *cells, size_t columns, FILE *to)
{
	size_t left = columns == 0 ? SIZE_MAX : columns;

	for (size_t i = 0; i < t->columns && left > 0; i++) {
		size_t pad = i + 1 < t->columns ? t->width[i] + 2 - widths[i] : 0;
		size_t shown = widths[i] < left ? widths[i] : left;

		bool painted = cells != NULL && cells[i].colour != COLOUR_NONE;

		if (painted)
			(void)fputs(colour(to, cells[i].colour), to);
		(void)fwrite(texts[i], 1, bytes_of(texts[i], shown), to);
		if (painted)
			(void)fputs(colour(to, COLOUR_NONE), to);
		left -= shown;
		if (pad > left)
			pad = left;
		(void)fprintf(to, "%*s", (int)pad, "");
		left -= pad;
	}
	(void)fputc('\n', to);
}

/* The width of the terminal cuts a row, never wraps it. */
void columns_print(const struct columns *t, size_t max, size_t columns, FILE *to)
{
	const char *texts[COLUMNS_MAX];
	size_t widths[COLUMNS_MAX];

	for (size_t i = 0; i < t->columns; i++)
		widths[i] = strlen(t->heads[i]);
	print_row(t, t->heads, widths, NULL, columns, to);
	for (size_t row = 0; row < columns_rows(t) && row < max; row++) {
		for (size_t i = 0; i < t->columns; i++) {
			texts[i] = t->cells[row * t->columns + i].text;
			widths[i] = t->cells[row * t->columns + i].width;
		}
		print_row(t, texts, widths, &t->cells[row * t->columns], columns, to);
	}
}
