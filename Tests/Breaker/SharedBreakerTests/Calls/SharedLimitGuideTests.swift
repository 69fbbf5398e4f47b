import SharedBreaker
import SharedBreakerTesting
import TestSupport
import Testing

/// The examples of the guide "Sharing a Limit", exactly as the guide prints them.
@Suite(.timeLimit(.minutes(60))) struct SharedLimitGuideTests {
  private static func lines(of text: String) -> [String] {
    text.split(separator: "\n").map { String($0.drop { $0 == " " }) }.filter { !$0.isEmpty }
  }

  @Test func `every example of the guide to limits is in this file`() throws {
    let root = #filePath.split(separator: "/").dropLast(5).joined(separator: "/")
    func text(_ path: String) throws -> String {
      String(decoding: try Files.read("/\(root)/\(path)"), as: UTF8.self)
    }
    let guide = try text("Sources/Breaker/SharedBreaker/SharedBreaker.docc/SharingALimit.md")
    let tests = Self.lines(
      of: try text("Tests/Breaker/SharedBreakerTests/Calls/SharedLimitGuideTests.swift")
    )
    .joined(separator: "\n")
    let examples = guide.split(separator: "```swift\n").dropFirst().compactMap {
      $0.split(separator: "```").first.map { Self.lines(of: String($0)) }
    }
    #expect(examples.count == 3)
    for example in examples {
      #expect(tests.contains(example.joined(separator: "\n")), "\(example[0])")
    }
  }

  @Test func `a question that finds no room is answered with a request for patience`() throws {
    let store = TestHost().store()
    func ask(_ prompt: String) throws -> String { prompt.uppercased() }

    let policy = BreakerPolicy(maxConcurrent: 4, queueTimeout: .seconds(10), lostCalls: .failure)
    let model = try store.breaker("model", policy: policy)

    func answer(_ prompt: String) throws -> String {
      do {
        return try model.run { try ask(prompt) }
      } catch BreakerError.rejected(_, let rejection) where rejection.cause == .busy {
        return "Too many questions at once. Ask again in a moment."
      }
    }
    #expect(try answer("why") == "WHY")
    // So long a wait would be no test.
    try model.overridePolicy(set: [.queueTimeout: "1ms"])
    let permits = try (0..<4).map { _ in try model.acquire().shared() }
    #expect(try answer("why").hasPrefix("Too many"))
    for permit in permits { permit.succeed() }
    #expect(try answer("why") == "WHY")
  }

  @Test func `training takes two units and leaves what is reserved`() throws {
    let store = TestHost().store()
    let gpu = try store.breaker("gpu", policy: BreakerPolicy(maxConcurrent: 4, reserve: 2))
    let trained = Notes<Int>()
    func train() throws { trained.note(gpu.snapshot().limit?.unitsInUse ?? 0) }
    let training = gpu.claiming(units: 2, inBackground: true)
    try training.run { try train() }
    #expect(trained.entries == [2])
    let permit = try training.acquire().shared()
    #expect(throws: BreakerError.self) { try training.run {} }
    try gpu.run {}
    permit.succeed()
  }

  @Test func `a policy for a database leaves connections to people`() throws {
    let store = TestHost().store()
    var policy = BreakerPolicy.database
    policy.maxConcurrent = 80
    policy.queueTimeout = .milliseconds(500)
    let orders = try store.breaker("orders-db", policy: policy)
    try orders.run {}
    #expect(orders.snapshot().policy.maxConcurrent == 80)
  }
}
