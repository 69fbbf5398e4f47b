internal import BreakerCore

/// Checks the part of this host in its fleet.
struct FleetExamination {
  let reader: Connection

  let clock: StoreClock

  /// The path of the store.
  let path: String

  /// What was found; nothing if the store belongs to no fleet.
  func findings() throws(StoreError) -> [StoreFinding] {
    guard let fleet = try FleetTable.find(on: reader) else { return [] }
    let place = "fleet \(StoreError.visible(fleet.fleet)), as \(StoreError.visible(fleet.host))"
    let waiting = Int64(fleet.waiting)
    let commands = waiting == 0 ? "" : "; \(CountedNoun.text(waiting, "command")) waiting"
    guard try StoreLock.isClaimed(path) else {
      return [
        StoreFinding(
          .fleet, .warning, "\(place): no relay runs\(commands)",
          means: "this host goes on without the others, and they go on without it",
          repair: "none: start cbrelay, or run 'cbctl fleet leave' if the host is to leave")
      ]
    }
    guard fleet.isConnected else {
      let since = fleet.changedAtMilliseconds.map { " for \(age(of: $0))" } ?? " yet"
      let problem = fleet.problem.map { " (\($0))" } ?? ""
      return [
        StoreFinding(
          .fleet, .warning, "\(place): the relay has not reached it\(since)\(problem)\(commands)",
          means: "this host goes on without the others, and they go on without it",
          repair: fleet.problem == nil
            ? "none: the relay connects as soon as it can"
            : "none: remove the cause, and the relay connects by itself")
      ]
    }
    return [StoreFinding(.fleet, .ok, "\(place): the relay is connected\(commands)")]
  }

  /// How long ago a time was, in one unit.
  private func age(of milliseconds: Int64) -> String {
    let seconds = max(0, clock.wallMilliseconds - milliseconds) / 1_000
    let unit: Int64 = seconds < 120 ? 1 : seconds < 7_200 ? 60 : 3_600
    return DurationText.format(.seconds(seconds / unit * unit))
  }
}
