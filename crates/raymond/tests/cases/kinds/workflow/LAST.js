console.log('<result>' + process.env.RAYMOND_INPUT + ' js</result>')
