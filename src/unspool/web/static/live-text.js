/**
 * Text of the model as it is streamed, from pieces with offsets. Pieces may overlap, arrive twice, or be missing: then
 * `add` says so, and the caller fetches the whole text.
 */

export class LiveText {
  turn = -1;
  /** Where `text` starts in the text of the turn. */
  start = 0;
  text = "";
  /** Up to where the session log has the text. */
  logged = 0;
  isCutOff = false;

  get end() {
    return this.start + this.text.length;
  }

  /** What the session log does not have yet. */
  get rest() {
    return this.text.slice(Math.max(0, this.logged - this.start));
  }

  /** Set what the log does not have yet. @param {string} rest the end of the text */
  set rest(rest) {
    this.logged = this.end - rest.length;
  }

  /**
   * @param {{turn: number, offset: number, text: string, is_cut_off?: boolean}} piece
   * @param {boolean} isWhole whether the server has nothing before it, or nothing before it is needed
   * @returns {boolean} false if the text before this piece is missing
   */
  add({ turn, offset, text, is_cut_off = false }, isWhole = false) {
    if (turn < this.turn) return true;
    if (turn > this.turn) Object.assign(this, { turn, start: 0, text: "", logged: 0, isCutOff: false });
    if (is_cut_off) this.isCutOff = true;
    if (isWhole && offset > this.end) Object.assign(this, { start: offset, text: "" });
    if (offset > this.end) return false;
    this.text += text.slice(this.end - offset);
    return true;
  }
}
