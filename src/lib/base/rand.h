/* rand.h - randomness from the kernel, and ids made of it. Never fails: if the kernel gives no
 * random numbers, the process aborts. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RAND_ID_CHARS 16
#define RAND_ID_MAX 24 /* four characters of prefix at most fit: "ses_" + 16 + NUL */

void rand_bytes(void *ret, size_t n);

/* Evenly from 0 to n - 1. n > 0. */
uint32_t rand_below(uint32_t n);

/* 32 hex digits and a NUL: the content of an /etc/machine-id. */
void rand_machine_id(char ret_id[33]);

/* prefix, 16 characters of [a-z0-9] (82 bits), NUL. The result must hold strlen(prefix) + 17. */
void rand_id(const char *prefix, char *ret_id, size_t cap);
