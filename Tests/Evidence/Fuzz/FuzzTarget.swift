@testable import ControlKit
import Glibc

/// A part of the program that the fuzzer feeds with bytes, and what must hold for any bytes.
enum FuzzTarget: String, CaseIterable, Sendable {
  case arguments
  case values
  case policy
  case token
  case page
  case slots
  case database
  case library
  case status

  /// Does what the bytes say, and ends the process if something does not hold.
  func run(_ bytes: [UInt8]) {
    switch self {
    case .arguments: ArgumentsTarget.run(bytes)
    case .values: ValuesTarget.run(bytes)
    case .policy: PolicyTarget.run(bytes)
    case .token: TokenTarget.run(bytes)
    case .page: PageTarget.run(bytes)
    case .slots: SlotsTarget.run(bytes)
    case .database: DatabaseTarget.run(bytes)
    case .library: LibraryTarget.run(bytes)
    case .status: StatusTarget.run(bytes)
    }
  }

  /// The target that the environment names.
  static let chosen: FuzzTarget = {
    let name = unsafe getenv("SHARED_BREAKER_FUZZ").map { unsafe String(cString: $0) } ?? ""
    guard let target = FuzzTarget(rawValue: name) else {
      fatalError("SHARED_BREAKER_FUZZ names no target: \(allCases.map(\.rawValue))")
    }
    return target
  }()
}

/// The function that libFuzzer calls again and again with its bytes.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
  let input = unsafe UnsafeBufferPointer(start: bytes, count: count)
  FuzzTarget.chosen.run(unsafe Array(input))
  return 0
}

/// The bytes of one run, read as small decisions; zeros when none are left.
struct FuzzBytes {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { rest = bytes[...] }

  var isEmpty: Bool { rest.isEmpty }

  mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

  /// Returns a number below a bound.
  mutating func number(below bound: Int) -> Int {
    let wide = bound > 256 ? Int(byte()) << 8 | Int(byte()) : Int(byte())
    return wide % bound
  }

  mutating func bytes(_ count: Int) -> [UInt8] {
    let taken = Array(rest.prefix(count))
    rest = rest.dropFirst(count)
    return taken
  }

  /// Returns one of the numbers that are often forgotten, or any other number.
  mutating func word() -> UInt64 {
    switch number(below: 8) {
    case 0: 0
    case 1: .max
    case 2: UInt64(Int64.max)
    case 3: UInt64(bitPattern: .min)
    case 4: UInt64(byte())
    case 5: 1 << UInt64(number(below: 64))
    default: bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
  }
}

/// Ends the process unless the condition holds, so that libFuzzer keeps the input.
func expect(_ condition: Bool, _ complaint: @autoclosure () -> String) {
  if !condition { fatalError(complaint()) }
}

/// Checks that a message is not empty, is one line, and has no characters that could mislead.
func expectReadable(_ message: String) {
  expect(!message.isEmpty, "an empty message")
  expect(
    message == VisibleText.bare(message),
    "a message that could mislead: \(VisibleText.bare(message))")
}
