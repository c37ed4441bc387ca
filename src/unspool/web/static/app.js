/**
 * Starts what the page needs. Everything can be read without it.
 */

import { startBoard } from "./board.js";
import { Composer } from "./composer.js";
import { startCopying } from "./copy.js";
import { find } from "./dom.js";
import { Growth } from "./growth.js";
import { startKeys } from "./keys.js";
import { startLazy } from "./lazy.js";
import { Live } from "./live.js";
import { Pages } from "./pages.js";
import { Palette } from "./palette.js";
import { Place } from "./place.js";
import { Rail } from "./rail.js";
import { startRuns } from "./runs.js";
import { startSearch } from "./search.js";
import { startTimes } from "./time.js";
import { Torch } from "./torch.js";

/** @typedef {ReturnType<typeof startReading>} Reading what belongs to a transcript; null on other pages */

function startReading() {
  const main = find("main[data-session]");
  if (!main) return null;
  const pages = new Pages(main);
  const place = new Place(pages);
  void place.open();
  return { place, growth: new Growth(pages), rail: new Rail(place), torch: new Torch(place) };
}

startLazy();
startCopying();
startTimes();
const reading = startReading();
const palette = new Palette();
startKeys(reading, () => palette.open());
startSearch();
new Live(reading);
void startRuns(() => {
  if (find("#composer")) new Composer(reading);
  if (find("#board")) startBoard();
});
