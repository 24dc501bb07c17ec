// SPDX-License-Identifier: MIT OR Apache-2.0

/* Memory that driver and device share: single aligned accesses (protocol.md, 2, last paragraph). */
#ifndef WORDS_H
#define WORDS_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "all integers are little-endian");

static inline uint64_t load64(const volatile void *at)
{
    return atomic_load_explicit((const volatile _Atomic uint64_t *)at, memory_order_acquire);
}

static inline void store64(volatile void *at, uint64_t value)
{
    atomic_store_explicit((volatile _Atomic uint64_t *)at, value, memory_order_release);
}

static inline uint16_t load16(const volatile void *at)
{
    return atomic_load_explicit((const volatile _Atomic uint16_t *)at, memory_order_acquire);
}

static inline void store16(volatile void *at, uint16_t value)
{
    atomic_store_explicit((volatile _Atomic uint16_t *)at, value, memory_order_release);
}

static inline void full_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

/* A field of a structure that is read or written as bytes. */
static inline uint16_t get16(const void *at) { uint16_t value; memcpy(&value, at, 2); return value; }
static inline uint32_t get32(const void *at) { uint32_t value; memcpy(&value, at, 4); return value; }
static inline uint64_t get64(const void *at) { uint64_t value; memcpy(&value, at, 8); return value; }
static inline void put16(void *at, uint16_t value) { memcpy(at, &value, 2); }
static inline void put32(void *at, uint32_t value) { memcpy(at, &value, 4); }
static inline void put64(void *at, uint64_t value) { memcpy(at, &value, 8); }

#endif
