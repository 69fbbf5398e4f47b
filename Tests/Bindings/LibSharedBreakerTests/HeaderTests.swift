import CSharedBreaker
import SharedBreaker
import TestSupport
import Testing

@testable import LibSharedBreaker

/// The statements of the header, compared with the library.
///
/// The compiler compares each function with its declaration, and `scripts/checks/test-library` compares the
/// declarations with what the shipped library exports.
@Suite struct HeaderTests {
  private let header: String
  private let manual: String

  init() throws {
    let root = #filePath.split(separator: "/").dropLast(4).map { "/" + $0 }.joined()
    func text(_ name: String) throws -> String {
      String(
        decoding: try Files.read("\(root)/Sources/Bindings/CSharedBreaker/\(name)"), as: UTF8.self)
    }
    header = try text("sharedbreaker.h")
    manual = try text("sharedbreaker.3")
  }

  @Test func `every code of the header has words of its own`() {
    let codes = header.matches(of: /\n  (SB_[A-Z_]+) = (-?[0-9]+),?\n/).filter { match in
      match.1.hasPrefix("SB_ERR_")
    }
    #expect(codes.count > 25)
    var words: Set<String> = []
    for code in codes {
      guard let number = Int32(code.2) else { continue }
      let text = CodeText.of(sb_code(rawValue: number)).description
      #expect(text != "unknown code", "\(code.1)")
      #expect(words.insert(text).inserted, "\(code.1)")
    }
  }

  @Test func `the manual page names every function`() {
    let functions = header.matches(of: /\n(?:int|void|const char \*) ?(sb_[a-z_]+)\(/).map(\.1)
    #expect(functions.count > 30)
    for function in functions { #expect(manual.contains(function), "\(function)") }
  }

  @Test func `the sizes of the structs never change`() {
    let sizes = unsafe [
      MemoryLayout<sb_permit>.size, MemoryLayout<sb_rejection>.size,
      MemoryLayout<sb_details>.size, MemoryLayout<sb_options>.size, MemoryLayout<sb_error>.size,
    ]
    #expect(sizes == [96, 280, 48, 64, 1056])
  }

  @Test func `the numbers of states and modes are those of the library`() {
    let states = [SB_CLOSED, SB_OPEN, SB_HALF_OPEN].map { Int($0.rawValue) }
    #expect(states == BreakerState.allCases.map(\.rawValue))
    let modes = [SB_AUTOMATIC, SB_FORCED_OPEN, SB_FORCED_CLOSED, SB_OBSERVE]
    #expect(modes.map { Int($0.rawValue) } == BreakerMode.allCases.map(\.rawValue))
  }
}
