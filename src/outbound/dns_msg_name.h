/* dns_msg_name.h - reads one name of a DNS message. For dns_msg.c and dns_msg_reply.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "own.h"

#define DNS_MSG_HEAD 12	      /* bytes of the head: no name begins inside it */
#define DNS_MSG_NAME_MAX 1025 /* text with its NUL: 255 bytes, four characters each */

/* Starts at *at and moves it behind the name. compressed: pointers are followed, each to a place
 * before all bytes of the name read so far. -1: malformed or longer than 255 bytes. */
int dns_msg_name_read(const uint8_t *msg, size_t len, size_t *at, bool compressed,
		      char ret[DNS_MSG_NAME_MAX]) MUST_USE;
