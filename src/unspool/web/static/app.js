/**
 * Starts the scripts that the page needs. All content can be read without them.
 */

import { Annotations } from "./annotations.js";
import { startBoard } from "./board.js";
import { Composer } from "./composer.js";
import { startCopying } from "./copy-button.js";
import { find } from "./dom.js";
import { FindBar } from "./find-bar.js";
import { LastSeen } from "./last-seen.js";
import { LiveUpdates } from "./live-updates.js";
import { startKeys } from "./keyboard.js";
import { startLazy } from "./lazy-load.js";
import { LivePage } from "./live-page.js";
import { Pages } from "./pages.js";
import { Palette } from "./palette.js";
import { Navigation } from "./navigation.js";
import { Rail } from "./rail.js";
import { startReview } from "./review.js";
import { startQueue } from "./queue.js";
import { startRuns } from "./runs.js";
import { startSearch } from "./search.js";
import { ShareDialog } from "./share-dialog.js";
import { startTimes } from "./relative-time.js";
import { ContextView } from "./context-view.js";

/** @typedef {ReturnType<typeof startReading>} Reading the parts of a transcript page; null on other pages */

function startReading() {
  const main = find("main[data-session]");
  if (!main) return null;
  const pages = new Pages(main);
  const navigation = new Navigation(pages);
  void navigation.open();
  new LastSeen(navigation);
  new Annotations(navigation);
  new ShareDialog();
  return {
    navigation,
    updates: new LiveUpdates(pages),
    rail: new Rail(navigation),
    contextView: new ContextView(navigation),
    findBar: new FindBar(navigation),
  };
}

startLazy();
startCopying();
startTimes();
const reading = startReading();
const palette = new Palette();
startKeys(reading, () => palette.open());
startSearch();
startReview();
new LivePage(reading);
void startRuns(() => {
  startQueue();
  if (find("#composer")) new Composer(reading);
  if (find("#board")) startBoard();
});
