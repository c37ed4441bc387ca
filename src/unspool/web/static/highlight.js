/** Marks words in the transcript without changing its elements, so that copying and updating are not affected. */

import { findAll } from "./dom.js";

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** A pattern for a text in any case, with any white space between its words. @param {string} text */
export const patternOf = (text) => new RegExp(text.trim().split(/\s+/).map(escaped).join("\\s+"), "giu");

/** A pattern for a phrase of whole words; a star at the end matches longer words. @param {string} phrase */
export function phrasePattern(phrase) {
  const words = phrase.replace(/\*$/, "").split(/\s+/).map(escaped).join("[^\\p{L}\\p{N}]+");
  return new RegExp(`(?<![\\p{L}\\p{N}])${words}${phrase.endsWith("*") ? "" : "(?![\\p{L}\\p{N}])"}`, "giu");
}

/** The matches of a pattern in an element, collapsed or not. @param {Element} element @param {RegExp} pattern */
export function rangesIn(element, pattern) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  const starts = [];
  let text = "";
  while (walker.nextNode()) {
    nodes.push(walker.currentNode);
    starts.push(text.length);
    text += walker.currentNode.nodeValue;
  }
  // Matches are in the order of the text, so the search for a boundary continues where the last one ended.
  let at = 0;
  const boundaryAt = (offset, isEnd) => {
    while (isEnd ? starts[at + 1] < offset : starts[at + 1] <= offset) at++;
    return [nodes[at], offset - starts[at]];
  };
  return [...text.matchAll(pattern)].filter(([match]) => match).map((match) => {
    const range = document.createRange();
    range.setStart(...boundaryAt(match.index, false));
    range.setEnd(...boundaryAt(match.index + match[0].length, true));
    return range;
  });
}

/** @param {string} name of the highlight, which a style sheet colours @param {Range[]} ranges */
export function highlight(name, ranges) {
  if (!CSS.highlights) return;
  if (!ranges.length) return void CSS.highlights.delete(name);
  const marked = new Highlight();
  // One by one: there can be more than a call can have arguments.
  for (const range of ranges) marked.add(range);
  CSS.highlights.set(name, marked);
}

/** The range to show. A collapsed line repeats the beginning of its text, so it comes last. @param {Range[]} ranges */
export const bestOf = (ranges) =>
  ranges.find(({ startContainer }) => !startContainer.parentElement?.closest("summary")) ?? ranges[0];

/** Expand everything that is collapsed around a range. @param {Range} range @param {Element} within */
export function unfoldAround(range, within) {
  for (const details of findAll("details:not([open])", within)) {
    const summary = details.firstElementChild;
    if (details.contains(range.startContainer) && !summary?.contains(range.startContainer)) details.open = true;
  }
}
