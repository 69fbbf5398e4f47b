import TestSupport
import Testing

/// Everything that the fuzzer has kept, each of which once went where nothing else had gone.
///
/// One target after the other: those that need a store put theirs in the same place.
@Suite(.serialized) struct `Bytes that nobody has written` {
  @Test(.timeLimit(.minutes(10)), arguments: FuzzTarget.allCases)
  func `do no harm`(target: FuzzTarget) throws {
    let corpus = try Files.all(in: Self.folder(of: target))
    try #require(!corpus.isEmpty)
    for path in corpus { target.run(try Files.read(path)) }
  }

  private static func folder(of target: FuzzTarget) -> String {
    let here = #filePath.split(separator: "/").dropLast().joined(separator: "/")
    return "/\(here)/Corpus/\(target.rawValue)"
  }
}
