// SPDX-License-Identifier: MIT OR Apache-2.0

#include "driver.h"

#include "failure.h"
#include "transcript.h"
#include "words.h"

#include <sched.h>

#define CALL(driver, code, process, body, reply) \
    control_call(&(driver)->control, code, process, body, sizeof *(body), reply, sizeof *(reply))

void driver_open(struct driver *driver, struct guest *guest)
{
    const uint64_t none = 0;
    uint64_t offered;
    struct create_process_reply process;
    memset(driver, 0, sizeof *driver);
    driver->guest = guest;
    if (memcmp(guest->config, CONFIG_MAGIC, 8) != 0)
        fail("this is no Bellhop device");
    control_start(&driver->control, guest);
    offered = get64(guest->config + 32);
    struct open_adapter open = {
        .major = VERSION_MAJOR,
        .minor = VERSION_MINOR,
        .features = offered & (FEATURE_USER_MODE_SUBMISSION | FEATURE_NATIVE_FENCES),
    };
    transcript_step("OPEN_ADAPTER");
    CALL(driver, OPEN_ADAPTER, 0, &open, &driver->adapter);
    if (!(driver->adapter.features & FEATURE_USER_MODE_SUBMISSION))
        fail("there is no user-mode submission here");
    transcript_step("QUERY_USER_MODE_SUBMISSION_CAPS");
    CALL(driver, QUERY_USER_MODE_SUBMISSION_CAPS, 0, &none, &driver->caps);
    if (driver->caps.flags & CAPS_GLOBAL_DOORBELL)
        fail("this driver has no use for a global doorbell");
    transcript_step("CREATE_PROCESS");
    CALL(driver, CREATE_PROCESS, 0, &none, &process);
    driver->process = process.process;
    transcript_step("CREATE_DEVICE");
    CALL(driver, CREATE_DEVICE, driver->process, &none, &driver->device);
    struct create_context context = {.device = driver->device, .node = 0};
    transcript_step("CREATE_CONTEXT");
    CALL(driver, CREATE_CONTEXT, driver->process, &context, &driver->context);
}

void driver_close(struct driver *driver)
{
    const uint64_t normally = 0;
    transcript_step("DESTROY_PROCESS");
    control_call(&driver->control, DESTROY_PROCESS, driver->process, &normally, sizeof normally,
                 NULL, 0);
    driver->guest->stop(driver->guest);
}

uint64_t driver_map(struct driver *driver, uint64_t allocation, uint64_t size)
{
    uint64_t gpu_va;
    struct map_gpu_virtual_address map = {
        .allocation = allocation, .size = size, .protection = PROTECTION_WRITE};
    transcript_step("MAP_GPU_VIRTUAL_ADDRESS");
    CALL(driver, MAP_GPU_VIRTUAL_ADDRESS, driver->process, &map, &gpu_va);
    return gpu_va;
}

struct allocation driver_allocate(struct driver *driver, bool mapped)
{
    struct allocation allocation = {.page = driver->guest->new_page(driver->guest)};
    struct {
        struct create_allocation fixed;
        struct extent extent;
    } create = {
        .fixed = {.device = driver->device, .size = PAGE, .kind = ALLOCATION_SYSTEM, .extents = 1},
        .extent = {.address = allocation.page.address, .length = PAGE},
    };
    struct create_allocation_reply reply;
    transcript_step("CREATE_ALLOCATION");
    CALL(driver, CREATE_ALLOCATION, driver->process, &create, &reply);
    allocation.handle = reply.handle;
    if (mapped)
        allocation.gpu_va = driver_map(driver, reply.handle, PAGE);
    return allocation;
}

void queue_create(struct driver *driver, struct queue *queue, uint32_t private_data)
{
    memset(queue, 0, sizeof *queue);
    struct create_hw_queue create = {
        .context = driver->context,
        .flags = QUEUE_USER_MODE_SUBMISSION | QUEUE_NATIVE_PROGRESS_FENCE,
    };
    transcript_step("CREATE_HW_QUEUE");
    CALL(driver, CREATE_HW_QUEUE, driver->process, &create, &queue->hw_queue);
    /* protocol.md, 4: the device reaches ring and ring control by itself. Only what packets name has to
     * be mapped. */
    queue->ring = driver_allocate(driver, false);
    queue->ring_control = driver_allocate(driver, false);
    queue->commands = driver_allocate(driver, true);
    struct create_doorbell doorbell = {
        .hw_queue = queue->hw_queue.handle,
        .ring_buffer = queue->ring.handle,
        .ring_control = queue->ring_control.handle,
        .private_data = private_data,
    };
    transcript_step("CREATE_DOORBELL");
    CALL(driver, CREATE_DOORBELL, driver->process, &doorbell, &queue->doorbell);
}

uint32_t queue_connect(struct driver *driver, struct queue *queue)
{
    struct connect_doorbell_reply reply;
    transcript_step("CONNECT_DOORBELL");
    CALL(driver, CONNECT_DOORBELL, driver->process, &queue->hw_queue.handle, &reply);
    return reply.status;
}

uint32_t queue_status(const struct driver *driver, const struct queue *queue)
{
    return (uint32_t)load64(driver->guest->bar + queue->doorbell.status_offset);
}

/* Steps 4 and 5 of protocol.md, 3, "Submission, step by step". */
static void ring(struct driver *driver, struct queue *queue)
{
    volatile uint8_t *bar = driver->guest->bar;
    struct timespec start = now();
    for (;;) {
        transcript_step("the doorbell word, 0x%llx of the BAR",
                        (unsigned long long)queue->doorbell.doorbell_offset);
        transcript_bytes("store", &queue->write_pointer, 8);
        store64(bar + queue->doorbell.doorbell_offset, queue->write_pointer);
        full_fence();
        uint64_t word = load64(bar + queue->doorbell.status_offset);
        transcript_step("the status word, 0x%llx of the BAR",
                        (unsigned long long)queue->doorbell.status_offset);
        transcript_bytes("load", &word, 8);
        switch ((enum connection_status)(uint32_t)word) {
        case CONNECTED:
            return;
        case CONNECTED_NOTIFY:
            transcript_step("NOTIFY_WORK_SUBMISSION");
            control_call(&driver->control, NOTIFY_WORK_SUBMISSION, driver->process,
                         &queue->doorbell.handle, 8, NULL, 0);
            queue->notifies++;
            return;
        case DISCONNECTED_RETRY:
            queue_connect(driver, queue);
            queue->retries++;
            break;
        case DISCONNECTED_ABORT:
            fail("the HW queue is lost");
        }
        check_time(&start, "a connected doorbell");
    }
}

/* A packet's bytes are in the ring modulo its size. */
static void put_packet(struct queue *queue, const uint64_t *words, size_t count)
{
    for (size_t word = 0; word < count; word++) {
        store64(queue->ring.page.here + queue->write_pointer % PAGE, words[word]);
        queue->write_pointer += 8;
    }
}

static uint64_t header(unsigned opcode, unsigned units, uint32_t argument)
{
    return opcode | (uint64_t)units << 16 | (uint64_t)argument << 32;
}

void queue_submit(struct driver *driver, struct queue *queue, const void *packets, size_t length)
{
    /* This driver has one command buffer for each queue. */
    queue_await(driver, queue);
    queue->progress_value++;
    uint64_t signal[] = {
        header(PACKET_SIGNAL_FENCE, 2, queue->hw_queue.progress_fence.slot),
        queue->progress_value,
    };
    uint32_t size = (uint32_t)(length + sizeof signal);
    if (size > PAGE)
        fail("%u bytes of packets are not in a page", size);
    memcpy(queue->commands.page.here, packets, length);
    memcpy(queue->commands.page.here + length, signal, sizeof signal);
    transcript_step("the command buffer");
    transcript_bytes("store", queue->commands.page.here, size);
    transcript_step("the last-queued word, 0x%llx of the BAR",
                    (unsigned long long)queue->doorbell.last_queued_offset);
    transcript_bytes("store", &queue->progress_value, 8);
    store64(driver->guest->bar + queue->doorbell.last_queued_offset, queue->progress_value);
    uint64_t indirect[] = {header(PACKET_INDIRECT_BUFFER, 2, size), queue->commands.gpu_va};
    put_packet(queue, indirect, 2);
    transcript_step("the ring buffer");
    transcript_bytes("store", indirect, sizeof indirect);
    full_fence();
    transcript_step("the write pointer, in the ring buffer control");
    transcript_bytes("store", &queue->write_pointer, 8);
    store64(queue->ring_control.page.here, queue->write_pointer);
    ring(driver, queue);
}

void queue_await(const struct driver *driver, const struct queue *queue)
{
    struct timespec start = now();
    volatile uint8_t *fence = driver->guest->bar + queue->hw_queue.progress_fence.bar_offset;
    while (load64(fence) < queue->progress_value) {
        if (queue_status(driver, queue) == DISCONNECTED_ABORT)
            fail("the HW queue is lost");
        sched_yield();
        check_time(&start, "a fence");
    }
}
