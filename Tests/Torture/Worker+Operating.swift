import SharedBreaker
import TestSupport
import TortureReferee

extension Worker {
  /// Does what an operator would do, through the library.
  func operate(
    _ index: Int, _ action: Call.Action, _ detail: String = "-", _ body: () throws -> Void
  ) {
    let before = turn
    let id = scribe.began(action, breakers[index].name, detail)
    do {
      try body()
      note(id, since: before, "ok")
    } catch {
      note(id, since: before, "error")
    }
  }

  /// Sets a mode, and ends it again unless the process is killed before.
  func force(_ index: Int, _ random: inout SeededRandom) {
    let mode = random.pick([BreakerMode.forcedOpen, .forcedClosed, .observe])
    for mode in [mode, .automatic] {
      operate(index, .force, mode.wireName) { try breakers[index].force(mode) }
      work(&random)
    }
  }
}
