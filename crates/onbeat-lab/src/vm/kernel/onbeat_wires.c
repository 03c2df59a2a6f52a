// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * GPIO chips in memory whose lines are wired in pairs: what is written to line 2n arrives at line
 * 2n + 1 of the same chip, as an edge with an interrupt. So a loop in a guest can be measured from
 * edge to edge, through the kernel's GPIO character device, without a pin. There are two, for the
 * two boards of a guest.
 *
 * As with gpio-sim, whose lines are pulled through sysfs instead, the interrupt is raised by
 * irq_work: in hard interrupt context, as that of a chip.
 */
#include <linux/bitmap.h>
#include <linux/gpio/driver.h>
#include <linux/irq.h>
#include <linux/irq_work.h>
#include <linux/irqdomain.h>
#include <linux/module.h>

#define CHIPS 2
#define LINES 8

struct wires {
	struct gpio_chip chip;
	struct irq_work raise;
	DECLARE_BITMAP(level, LINES);
	DECLARE_BITMAP(outputs, LINES);
	DECLARE_BITMAP(enabled, LINES);
	DECLARE_BITMAP(pending, LINES);
	unsigned int edges[LINES];
};

static struct wires boards[CHIPS];
static const char *const labels[CHIPS] = { "onbeat-wires", "onbeat-wires-2" };

static void raise_pending(struct irq_work *work)
{
	struct wires *wires = container_of(work, struct wires, raise);
	unsigned int line;

	for_each_set_bit(line, wires->pending, LINES) {
		clear_bit(line, wires->pending);
		generic_handle_irq(irq_find_mapping(wires->chip.irq.domain, line));
	}
}

static int get(struct gpio_chip *chip, unsigned int line)
{
	struct wires *wires = gpiochip_get_data(chip);

	return test_bit(line, wires->level);
}

static void put(struct gpio_chip *chip, unsigned int line, int value)
{
	struct wires *wires = gpiochip_get_data(chip);
	unsigned int end = line | 1;
	unsigned int edge = value ? IRQ_TYPE_EDGE_RISING : IRQ_TYPE_EDGE_FALLING;

	assign_bit(line, wires->level, value);
	if (line == end || !!test_bit(end, wires->level) == !!value)
		return;

	assign_bit(end, wires->level, value);
	if (test_bit(end, wires->enabled) && (wires->edges[end] & edge)) {
		set_bit(end, wires->pending);
		irq_work_queue(&wires->raise);
	}
}

static int get_direction(struct gpio_chip *chip, unsigned int line)
{
	struct wires *wires = gpiochip_get_data(chip);

	return test_bit(line, wires->outputs) ? GPIO_LINE_DIRECTION_OUT : GPIO_LINE_DIRECTION_IN;
}

static int direction_input(struct gpio_chip *chip, unsigned int line)
{
	struct wires *wires = gpiochip_get_data(chip);

	clear_bit(line, wires->outputs);
	return 0;
}

static int direction_output(struct gpio_chip *chip, unsigned int line, int value)
{
	struct wires *wires = gpiochip_get_data(chip);

	set_bit(line, wires->outputs);
	put(chip, line, value);
	return 0;
}

static struct wires *wires_of(struct irq_data *data)
{
	return gpiochip_get_data(irq_data_get_irq_chip_data(data));
}

static void mask(struct irq_data *data)
{
	struct wires *wires = wires_of(data);

	clear_bit(irqd_to_hwirq(data), wires->enabled);
	gpiochip_disable_irq(&wires->chip, irqd_to_hwirq(data));
}

static void unmask(struct irq_data *data)
{
	struct wires *wires = wires_of(data);

	gpiochip_enable_irq(&wires->chip, irqd_to_hwirq(data));
	set_bit(irqd_to_hwirq(data), wires->enabled);
}

static int set_type(struct irq_data *data, unsigned int type)
{
	if (type & ~(unsigned int)IRQ_TYPE_EDGE_BOTH)
		return -EINVAL;
	wires_of(data)->edges[irqd_to_hwirq(data)] = type;
	return 0;
}

static const struct irq_chip wires_irq = {
	.name = "onbeat-wires",
	.irq_mask = mask,
	.irq_unmask = unmask,
	.irq_set_type = set_type,
	.flags = IRQCHIP_IMMUTABLE,
	GPIOCHIP_IRQ_RESOURCE_HELPERS,
};

static int add(struct wires *wires, const char *label)
{
	struct gpio_chip *chip = &wires->chip;

	wires->raise = IRQ_WORK_INIT_HARD(raise_pending);
	chip->label = label;
	chip->owner = THIS_MODULE;
	chip->base = -1;
	chip->ngpio = LINES;
	chip->get = get;
	chip->set = put;
	chip->get_direction = get_direction;
	chip->direction_input = direction_input;
	chip->direction_output = direction_output;
	gpio_irq_chip_set_chip(&chip->irq, &wires_irq);
	chip->irq.handler = handle_simple_irq;
	chip->irq.default_type = IRQ_TYPE_NONE;
	return gpiochip_add_data(chip, wires);
}

static void __exit wires_exit(void)
{
	unsigned int board;

	for (board = 0; board < CHIPS; board++) {
		gpiochip_remove(&boards[board].chip);
		irq_work_sync(&boards[board].raise);
	}
}

static int __init wires_init(void)
{
	unsigned int board;

	for (board = 0; board < CHIPS; board++) {
		int failed = add(&boards[board], labels[board]);

		if (failed) {
			while (board-- > 0)
				gpiochip_remove(&boards[board].chip);
			return failed;
		}
	}
	return 0;
}

module_init(wires_init);
module_exit(wires_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("GPIO lines in memory, wired in pairs");
