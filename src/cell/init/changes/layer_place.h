/* layer_place.h - one directory of a cell and its parts: the cell's writes, the layers below, and
 * both merged. For the readers of a cell's changes (diff.c, capture.c), which walk the three side
 * by side, by descriptor and without following any link. The cell is hostile: names, kinds and
 * depth are its choice. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "lib/wire/cell_spec.h"

/* -1 in a tree that does not have it. */
struct layer_place {
	int upper;		    /* what the cell wrote */
	int merged;		    /* what it saw */
	unsigned nlower;	    /* layers with the directory, */
	int lower[CELL_LAYERS_MAX]; /* the highest first */
};

/* The top of the place with this number: upper is "u<number>" of the current directory, merged is
 * found below descriptor 3, lower are n descriptors from first_fd on, the lowest first. The caller
 * calls layer_place_close(), also if it fails (errno is of the upper directory). */
int layer_place_open(struct layer_place *ret, unsigned number, const char *mount, int first_fd,
		     unsigned n);

/* The directory `name` in p. It has the layers that show through, down to the first where the name
 * is no directory. */
void layer_place_enter(const struct layer_place *p, const char *name, struct layer_place *ret);
void layer_place_close(struct layer_place *p);

bool layer_place_in(int dir, const char *name, struct stat *ret);
bool layer_place_is_whiteout(const struct stat *st);

/* The entry that the layers show: which of p->lower has it. -1: none, or a whiteout. */
int layer_place_find(const struct layer_place *p, const char *name, struct stat *ret);

/* Open a list of a directory's entries. The caller closes it. */
DIR *layer_place_list(int dir);
bool layer_place_is_dots(const char *name);

/* Each level of a tree needs several descriptors: as many as can be had. */
void layer_place_raise_limit(void);

/* How many of these places, which begin with a new one, are the same: the layers of a stack. */
int layer_place_stack(int nplaces, char **places);
