extension CommandSpec {
  /// Every command, in the order of help.
  static let all: [CommandSpec] = [
    status, show, history, watch, wait, check, policy, reset, trip, force, run, acquire, report,
    delete, initialize, doctor, help,
  ]

  static func named(_ name: String) -> CommandSpec? { all.first { $0.name == name } }
}
