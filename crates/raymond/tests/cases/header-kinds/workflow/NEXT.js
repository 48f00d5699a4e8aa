#!/usr/bin/env node
// raymond: max_visits=1 nonsense=js
console.log('<goto>START</goto>')
