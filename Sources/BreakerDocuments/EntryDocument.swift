public import SharedBreaker

/// The JSON document about an entry of the history: one line of `history --json`.
public enum EntryDocument {
  /// The document about one entry.
  public static func of(_ entry: HistoryEntry) -> JSONValue {
    .object([
      .init("id", .integer(entry.id)),
      .init("at", BreakerDocument.time(entry.at)),
      .init("name", .string(entry.name)),
      .init("kind", .string(entry.change.wireKind)),
      .init("from", .string(entry.change.wireFrom)),
      .init("to", .string(entry.change.wireTo)),
      .init("reason", JSONValue(entry.reason)),
      .init("by", by(entry)),
      .init("host", JSONValue(entry.host)),
    ])
  }

  private static func by(_ entry: HistoryEntry) -> JSONValue {
    .object([
      .init("pid", .integer(Int64(entry.pid))), .init("program", .string(entry.program)),
      .init("user", JSONValue(entry.user)), .init("command", JSONValue(entry.command)),
    ])
  }

  /// A process as the one that did something.
  public static func by(_ pid: Int32, _ program: String) -> JSONValue {
    .object([.init("pid", .integer(Int64(pid))), .init("program", .string(program))])
  }
}
