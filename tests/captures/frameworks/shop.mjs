// What every script of JavaScript shares: the task and the two tools, as in shop.py.
import { appendFileSync } from "node:fs";

export const SYSTEM = "You are a shop agent. Look up an order before you refund it.";
export const TASK = "Refund my orders 1049 and 1050 please.";
export const MODEL = "gpt-4o-mini";
export const MODEL_URL = process.env.CAPTURE_MODEL_URL;
export const SINK_URL = process.env.CAPTURE_SINK_URL;

const ORDERS = {
  1049: { order_id: "1049", status: "shipped", total_cents: 4250 },
  1050: { order_id: "1050", status: "delivered", total_cents: 990 },
};

export function getOrder({ order_id }) {
  return run("get_order", { order_id }, () => ORDERS[order_id]);
}

export function refundOrder({ order_id, amount }) {
  return run("refund_order", { order_id, amount }, () => ORDERS[order_id] && "refunded");
}

function run(name, given, found) {
  const result = found();
  const error = result === undefined ? `no such order: ${given.order_id}` : undefined;
  const line = JSON.stringify({ name, arguments: given, result, error });
  appendFileSync(process.env.CAPTURE_CALLS, line + "\n");
  if (error) throw new Error(error);
  return result;
}
